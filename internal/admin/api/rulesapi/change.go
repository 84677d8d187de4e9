package rulesapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/internal/admin/api"
	"github.com/weirlimit/weir/internal/ruleset/amend"
	"github.com/weirlimit/weir/internal/ruleset/finding"
	"github.com/weirlimit/weir/internal/ruleset/versions"
)

// Expect is which version a change is made of. It is embedded.
type Expect struct {
	IfMatch string `header:"If-Match" doc:"If it is sent: ETag of the newest rules; another version gets 412."`
}

// change makes a version, of which make also returns what the audit has of it. c is who makes it of which version, and before
// the newest one.
func (o *operations) change(
	ctx context.Context, ifMatch, why string, make func(before versions.Version, c versions.Change) (versions.Version, v1.AuditEntry, error),
) (versions.Version, error) {
	c := versions.Change{Who: api.Caller(ctx).Name, Why: why}
	if ifMatch != "" {
		on, err := strconv.ParseUint(strings.Trim(strings.TrimPrefix(ifMatch, "W/"), `"`), 10, 64)
		if err != nil {
			return versions.Version{}, v1.NewProblem(http.StatusBadRequest, v1.CodePrecondition, "If-Match must be one ETag, as GET /v1/rules has it")
		}
		c.On, c.First = on, on == 0
	}
	before, err := o.Store.Current(ctx)
	if err != nil && (api.Caller(ctx).Prefix != "" || !errors.As(err, new(*versions.DamagedError))) {
		return versions.Version{}, err // what is damaged can be replaced by who need not know which rules others had there
	}
	v, entry, err := make(before, c)
	if err != nil {
		return v, err
	}
	entry.Why = why
	o.api.Record(ctx, entry)
	_ = o.Store.Clean(ctx) // the next version cleans up what is left
	return v, nil
}

// number is a version in the audit.
func number(revision uint64) string { return "revision " + strconv.FormatUint(revision, 10) }

type putInput struct {
	IfMatch string `header:"If-Match" doc:"ETag of the rules that the document was made of; that of no version is \"0\"."`
	Body    v1.Change
}

func (o *operations) put(ctx context.Context, in *putInput) (*output[v1.Applied], error) {
	if in.IfMatch == "" {
		return nil, v1.NewProblem(http.StatusPreconditionRequired, v1.CodePrecondition, "If-Match is missing; send the ETag of the rules that you have changed, as GET /v1/rules has it")
	}
	out := &output[v1.Applied]{}
	v, err := o.change(ctx, in.IfMatch, in.Body.Why, func(before versions.Version, c versions.Change) (v versions.Version, e v1.AuditEntry, err error) {
		d, err := o.read(in.Body.Document)
		if err != nil {
			return v, e, wrong("nothing was changed: ", err)
		}
		if err := o.within(ctx, before, d); err != nil {
			return v, e, err
		}
		out.Body.Before, out.Body.Warnings = c.On, append([]finding.Finding{}, finding.Warnings(d, time.Now())...)
		v, err = o.Store.Apply(ctx, d, c)
		return v, v1.AuditEntry{What: "rules.apply", Before: number(c.On), After: number(v.Revision)}, err
	})
	out.ETag, out.Body.Version = tag(v), about(v)
	return out, err
}

type rollbackInput struct {
	Expect
	Body v1.Rollback
}

func (o *operations) rollback(ctx context.Context, in *rollbackInput) (*output[v1.Applied], error) {
	if caller := api.Caller(ctx); caller.Prefix != "" {
		return nil, notMine(&caller, "the whole document")
	}
	out := &output[v1.Applied]{Body: v1.Applied{Warnings: []finding.Finding{}}}
	v, err := o.change(ctx, in.IfMatch, in.Body.Why, func(before versions.Version, c versions.Change) (v versions.Version, e v1.AuditEntry, err error) {
		c.On = cmp.Or(c.On, before.Revision)
		out.Body.Before = before.Revision
		v, err = o.Store.Rollback(ctx, in.Body.Revision, c)
		return v, v1.AuditEntry{What: "rules.rollback", On: number(v.RollbackTo), Before: number(before.Revision), After: number(v.Revision)}, err
	})
	out.ETag, out.Body.Version = tag(v), about(v)
	return out, err
}

type amendInput struct {
	Expect
	Body amend.Amendment
}

type removeInput struct {
	Expect
	Rule string   `query:"rule" required:"true"`
	Key  []string `query:"key,explode" maxItems:"8" doc:"Of an override: a value for each part of the rule's key: key=a&key=b."`
	Hash string   `query:"hash" doc:"Of the key instead."`
	Why  string   `query:"why" required:"true" minLength:"1" maxLength:"2000"`
}

// addAmendments adds the operations on overrides, or on candidates.
func (o *operations) addAmendments(kind amend.Kind, what string) {
	name, path := string(kind), "/v1/"+string(kind)+"s"
	live := func(method, do, summary string) huma.Operation {
		op := operation(method, path, do+"-"+name, summary)
		op.Description = "It is a new version of the rules with the same document, and is in force as fast as one."
		return op
	}
	api.Add(o.api, access.Viewer, operation(http.MethodGet, path, "list-"+name+"s", "All "+name+"s that were set beside the document"),
		stored(o, o.reads, func(ctx context.Context, _ *struct{}) (*output[v1.Amendments], error) {
			v, d, err := o.Store.List(ctx)
			if err != nil {
				return nil, err
			}
			items := slices.DeleteFunc(d.Entries, func(e amend.Entry) bool { return e.Kind != kind })
			return &output[v1.Amendments]{tag(v), v1.Amendments{Items: append([]amend.Entry{}, items...)}}, nil
		}))
	api.Add(o.api, access.Operator, live(http.MethodPut, "put", "Set "+what+", for a time"),
		stored(o, o.changes, func(ctx context.Context, in *amendInput) (*output[v1.Amended], error) {
			return o.amend(ctx, name+".set", in.IfMatch, amend.Edit{Entry: amend.Entry{Kind: kind, Amendment: in.Body}})
		}))
	api.Add(o.api, access.Operator, live(http.MethodDelete, "delete", "End "+what),
		stored(o, o.changes, func(ctx context.Context, in *removeInput) (*output[v1.Amended], error) {
			a := amend.Amendment{Rule: in.Rule, Key: in.Key, Hash: in.Hash, Why: in.Why}
			return o.amend(ctx, name+".remove", in.IfMatch, amend.Edit{Entry: amend.Entry{Kind: kind, Amendment: a}, Remove: true})
		}))
}

// amend makes a version with other amendments.
func (o *operations) amend(ctx context.Context, what, ifMatch string, edit amend.Edit) (*output[v1.Amended], error) {
	if caller := api.Caller(ctx); !caller.May(edit.Rule) {
		return nil, notMine(&caller, "rule "+edit.Rule)
	}
	gone := ""
	v, err := o.change(ctx, ifMatch, edit.Why, func(_ versions.Version, c versions.Change) (v versions.Version, e v1.AuditEntry, err error) {
		v, gone, err = o.Store.Amend(ctx, edit, c)
		return v, v1.AuditEntry{What: what, On: edit.On(), Before: gone, After: v.Amends}, err
	})
	return &output[v1.Amended]{tag(v), v1.Amended{Version: about(v), Before: gone}}, err
}
