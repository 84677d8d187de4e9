package rulesapi

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/internal/admin/api"
	v1 "github.com/weirlimit/weir/internal/admin/v1"
	"github.com/weirlimit/weir/internal/ruleset/amend"
	"github.com/weirlimit/weir/internal/ruleset/versions"
)

func (o *operations) addAmendments() {
	const overrides, candidates = "/v1/overrides", "/v1/candidates"
	const live = "It is a new version of the rules with the same document, and is in force as fast as one."
	api.Add(o.api, access.Viewer, huma.Operation{
		OperationID: "list-overrides", Method: http.MethodGet, Path: overrides, Summary: "Overrides of single keys that were set beside the document",
	}, o.overrides)
	api.Add(o.api, access.Operator, huma.Operation{
		OperationID: "put-override", Method: http.MethodPut, Path: overrides, Summary: "Set the limit of one key for a time", Description: live,
	}, func(ctx context.Context, in *amendInput[v1.Override]) (*amendedOutput, error) {
		b := &in.Body
		entry := amend.Override{Rule: b.Rule, Key: b.Key, Hash: b.Hash, Name: b.Name, Limit: b.Limit, Limits: b.Limits, Set: amend.Set{Until: b.Until}}
		return o.amend(ctx, "override.set", in.IfMatch, b.Why, entry.Rule, entry.On(), amend.SetOverride(entry))
	})
	api.Add(o.api, access.Operator, huma.Operation{
		OperationID: "delete-override", Method: http.MethodDelete, Path: overrides, Summary: "End an override", Description: live,
	}, func(ctx context.Context, in *removeOverride) (*amendedOutput, error) {
		on := amend.Override{Rule: in.Rule, Key: in.Key, Hash: in.Hash}
		return o.amend(ctx, "override.remove", in.IfMatch, in.Why, in.Rule, on.On(), amend.RemoveOverride(in.Rule, in.Key, in.Hash))
	})
	api.Add(o.api, access.Viewer, huma.Operation{
		OperationID: "list-candidates", Method: http.MethodGet, Path: candidates, Summary: "Candidates that were set beside the document",
	}, o.candidates)
	api.Add(o.api, access.Operator, huma.Operation{
		OperationID: "put-candidate", Method: http.MethodPut, Path: candidates, Summary: "Try a limit of a rule, which refuses nothing, for a time", Description: live,
	}, func(ctx context.Context, in *amendInput[v1.Candidate]) (*amendedOutput, error) {
		b := &in.Body
		edit := amend.SetCandidate(amend.Candidate{Rule: b.Rule, Limit: b.Limit, Set: amend.Set{Until: b.Until}})
		return o.amend(ctx, "candidate.set", in.IfMatch, b.Why, b.Rule, b.Rule, edit)
	})
	api.Add(o.api, access.Operator, huma.Operation{
		OperationID: "delete-candidate", Method: http.MethodDelete, Path: candidates, Summary: "End a candidate", Description: live,
	}, func(ctx context.Context, in *Remove) (*amendedOutput, error) {
		return o.amend(ctx, "candidate.remove", in.IfMatch, in.Why, in.Rule, in.Rule, amend.RemoveCandidate(in.Rule))
	})
}

// Expect is which version a change is made of. It is embedded.
type Expect struct {
	IfMatch string `header:"If-Match" doc:"If it is sent: ETag of the newest rules; another version gets 412."`
}

type amendInput[Entry any] struct {
	Expect
	Body Entry
}

// Remove is which entry ends, and why. It is embedded.
type Remove struct {
	Expect
	Rule string `query:"rule" required:"true"`
	Why  string `query:"why" required:"true" minLength:"1" maxLength:"2000"`
}

type removeOverride struct {
	Remove
	Key  []string `query:"key,explode" maxItems:"8" doc:"A value for each part of the rule's key: key=a&key=b."`
	Hash string   `query:"hash" doc:"Of the key instead."`
}

type amendedOutput struct {
	ETag string `header:"ETag"`
	Body v1.Amended
}

// amend makes a version with other amendments. The audit has the entry as it was, and what it is.
func (o *operations) amend(ctx context.Context, what, ifMatch, why, rule, on string, edit amend.Edit) (*amendedOutput, error) {
	if err := o.kept(); err != nil {
		return nil, err
	}
	caller := api.Caller(ctx)
	if !caller.May(rule) {
		return nil, v1.NewProblem(http.StatusForbidden, v1.CodeForbidden, caller.Name+" may change rules whose names begin with "+caller.Prefix+"; nothing was changed")
	}
	change := versions.Change{Who: caller.Name, Why: why}
	if err := mayMatch(ifMatch, &change); err != nil {
		return nil, err
	}
	end, err := turn(ctx, o.changes)
	if err != nil {
		return nil, err
	}
	defer end()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	was := ""
	v, err := o.Store.Amend(ctx, func(d *amend.Document, by amend.Set) (string, error) {
		before := d.Texts()
		text, err := edit(d, by)
		after := d.Texts()
		gone := slices.DeleteFunc(before, func(t string) bool { return t != text && slices.Contains(after, t) })
		was = strings.Join(gone, "")
		return text, err
	}, change)
	if err != nil {
		return nil, problem(err)
	}
	o.api.Record(ctx, v1.AuditEntry{What: what, On: on, Before: was, After: v.Amends, Why: v.Why})
	_ = o.Store.Clean(ctx) // the next version cleans up what is left
	return &amendedOutput{tag(v), v1.Amended{Version: *about(v), Before: was}}, nil
}

type overridesOutput struct {
	ETag string `header:"ETag"`
	Body v1.Overrides
}

func (o *operations) overrides(ctx context.Context, _ *struct{}) (*overridesOutput, error) {
	listed, err := o.listed(ctx)
	if err != nil {
		return nil, err
	}
	out := &overridesOutput{tag(listed.Version), v1.Overrides{Items: []v1.OverrideSet{}}}
	for i := range listed.Document.Overrides {
		e := &listed.Document.Overrides[i]
		entry := v1.Override{Rule: e.Rule, Key: e.Key, Hash: e.Hash, Name: e.Name, Limit: e.Limit, Limits: e.Limits, Until: e.Until, Why: e.Why}
		out.Body.Items = append(out.Body.Items, v1.OverrideSet{Override: entry, SetBy: setBy(&listed, &e.Set, func(p *amend.Problem) bool { return p.Override == e })})
	}
	return out, nil
}

type candidatesOutput struct {
	ETag string `header:"ETag"`
	Body v1.Candidates
}

func (o *operations) candidates(ctx context.Context, _ *struct{}) (*candidatesOutput, error) {
	listed, err := o.listed(ctx)
	if err != nil {
		return nil, err
	}
	out := &candidatesOutput{tag(listed.Version), v1.Candidates{Items: []v1.CandidateSet{}}}
	for i := range listed.Document.Candidates {
		e := &listed.Document.Candidates[i]
		entry := v1.Candidate{Rule: e.Rule, Limit: e.Limit, Until: e.Until, Why: e.Why}
		out.Body.Items = append(out.Body.Items, v1.CandidateSet{Candidate: entry, SetBy: setBy(&listed, &e.Set, func(p *amend.Problem) bool { return p.Candidate == e })})
	}
	return out, nil
}

func (o *operations) listed(ctx context.Context) (versions.Listed, error) {
	if err := o.kept(); err != nil {
		return versions.Listed{}, err
	}
	end, err := turn(ctx, o.reads)
	if err != nil {
		return versions.Listed{}, err
	}
	defer end()
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	l, err := o.Store.List(ctx, time.Now())
	return l, problem(err)
}

// setBy is who set an entry, whose problem is found by its place.
func setBy(l *versions.Listed, s *amend.Set, its func(*amend.Problem) bool) v1.SetBy {
	by := v1.SetBy{When: s.When, Who: s.Who}
	for i := range l.Problems {
		if its(&l.Problems[i]) {
			by.Problem = l.Problems[i].Reason
		}
	}
	return by
}
