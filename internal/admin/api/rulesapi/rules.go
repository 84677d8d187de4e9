// Package rulesapi has the operations of the admin API on rules: read, check, apply and roll back rules, and set overrides
// and candidates.
//
//	rules.go   reading and checking
//	one.go     a single rule
//	change.go  new versions
//	prefix.go  callers who may change some rules only
package rulesapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/internal/admin/api"
	"github.com/weirlimit/weir/internal/consul"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/amend"
	"github.com/weirlimit/weir/internal/ruleset/finding"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/versions"
)

// Config is where the rules of a program are.
type Config struct {
	Store *versions.Store // nil: they are in a file
	Rules string          // the setting: consul:, store:, or the path of the file; empty: there are no rules
	// InForce is what the program has in force, and Set these rules; nil: it has none.
	InForce func() v1.InForce
	Set     func() *rule.Set
}

const (
	// callTime bounds an operation.
	callTime = 30 * time.Second
	// maxBody has room for the largest document, each byte of which may be escaped by another one.
	maxBody = 2*rulefile.MaxBytes + 64<<10
	// bodyTime bounds how long a document may take to arrive.
	bodyTime = time.Minute
	// turnTime bounds how long a call waits for its turn.
	turnTime = 10 * time.Second
	// documentName names the document in findings.
	documentName = "document"
	// noRules is a document without rules.
	noRules = "rules: []\n"
)

// operations answers the calls.
type operations struct {
	Config
	api *api.API
	// changes and reads have room for one call each that has a document parsed: 8 MiB of rules take much memory. They
	// are two, so that no viewer keeps admins from changing rules.
	changes, reads chan struct{}
}

// output is an answer with the entity tag of the rules.
type output[Body any] struct {
	ETag string `header:"ETag" doc:"Revision of the newest version, as If-Match wants it."`
	Body Body
}

// Add adds the operations to an API.
func Add(a *api.API, c Config) {
	o := &operations{Config: c, api: a, changes: make(chan struct{}, 1), reads: make(chan struct{}, 1)}
	const path = "/v1/rules"
	large := func(op huma.Operation) huma.Operation {
		op.MaxBodyBytes, op.BodyReadTimeout = maxBody, bodyTime
		return op
	}
	put := large(operation(http.MethodPut, path, "put-rules", "Put rules in force, as a new version"))
	put.Description = "Of two who change the same version, the second one gets 412, and nothing is changed."
	api.Add(a, access.Viewer, operation(http.MethodGet, path, "get-rules", "The newest rules, and what is in force"), o.get)
	api.Add(a, access.Admin, put, stored(o, o.changes, o.put))
	api.Add(a, access.Viewer, large(operation(http.MethodPost, path+":validate", "validate-rules", "Check rules: all mistakes and warnings")), o.validate)
	api.Add(a, access.Viewer, large(operation(http.MethodPost, path+":diff", "diff-rules", "Which requests a document changes, beside the newest rules")), o.diff)
	test := large(operation(http.MethodPost, path+":test", "test-rules", "Run the tests of a document"))
	test.Description = "Tests that are left after 10 s are not run: weir rules test runs them."
	api.Add(a, access.Operator, test, o.test)
	api.Add(a, access.Viewer, operation(http.MethodGet, path+"/in-force/{rule}", "get-rule", "A rule in force, in words"), o.inForce)
	api.Add(a, access.Viewer, operation(http.MethodGet, path+"/versions", "list-versions", "The last 100 versions of the rules"), stored(o, nil, o.list))
	api.Add(a, access.Viewer, operation(http.MethodGet, path+"/versions/{revision}", "get-version", "A version of the rules"), stored(o, nil, o.version))
	api.Add(a, access.Admin, operation(http.MethodPost, path+":rollback", "rollback-rules", "Put the rules of an earlier version in force again, as a new version"),
		stored(o, o.changes, o.rollback))
	o.addAmendments(amend.Override, "the limit of one key")
	o.addAmendments(amend.Candidate, "a limit that is tried beside that of a rule, and rejects nothing")
}

func operation(method, path, id, summary string) huma.Operation {
	return huma.Operation{Method: method, Path: path, OperationID: id, Summary: summary}
}

// stored is an operation that needs the store, after those that are in the queue, unless it is nil. It does not end with the
// call: who changes something and is gone would leave nobody who knows what is in force.
func stored[In, Out any](o *operations, queue chan struct{}, do func(context.Context, *In) (*Out, error)) func(context.Context, *In) (*Out, error) {
	return func(ctx context.Context, in *In) (*Out, error) {
		if o.Store == nil {
			return nil, o.readOnly()
		}
		if queue != nil {
			end, err := turn(ctx, queue)
			if err != nil {
				return nil, err
			}
			defer end()
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
		defer cancel()
		out, err := do(ctx, in)
		if err != nil {
			return nil, problem(err)
		}
		return out, nil
	}
}

// turn waits until no other call of a queue has a document parsed, and returns what ends the turn.
func turn(ctx context.Context, queue chan struct{}) (end func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, turnTime)
	defer cancel()
	select {
	case queue <- struct{}{}:
		return func() { <-queue }, nil
	case <-ctx.Done():
		return nil, v1.NewProblem(http.StatusServiceUnavailable, v1.CodeTooMany, "other documents are being checked; try again")
	}
}

func (o *operations) get(ctx context.Context, _ *struct{}) (*output[v1.Rules], error) {
	out := &output[v1.Rules]{Body: v1.Rules{Source: strings.TrimSuffix(o.Rules, ":"), InForce: o.InForce()}}
	if o.Store == nil {
		return o.getFile(ctx, out)
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	v, err := o.Store.Current(ctx)
	if err == nil && !v.Zero() {
		var text []byte
		text, err = o.Store.Document(ctx, v)
		newest := about(v)
		out.Body.Version, out.Body.Document = &newest, string(text)
	}
	out.ETag = tag(v)
	return out, problem(err)
}

func (o *operations) getFile(ctx context.Context, out *output[v1.Rules]) (*output[v1.Rules], error) {
	if o.Rules == "" {
		out.Body.Source, out.Body.Document = "none", noRules
		return out, nil
	}
	end, err := turn(ctx, o.reads)
	if err != nil {
		return nil, err
	}
	defer end()
	d, err := rulefile.Load(o.Rules)
	if err != nil {
		return nil, problem(err)
	}
	out.Body.Source, out.Body.Document = "file", string(d.Text)
	return out, nil
}

type listInput struct {
	api.Page
	Before uint64 `query:"before" doc:"The value of next of the page before; 0: the newest."`
	Rule   string `query:"rule" doc:"Only versions that changed this rule of the document, or an override or candidate of it."`
}

func (o *operations) list(ctx context.Context, in *listInput) (*api.Body[v1.Versions], error) {
	all, err := o.Store.History(ctx)
	if damaged := new(versions.DamagedError); err != nil && !errors.As(err, &damaged) { // the others can be read
		return nil, err
	}
	if in.Rule != "" {
		if all, err = o.changed(ctx, all, in.Rule); err != nil {
			return nil, err
		}
	}
	out := &api.Body[v1.Versions]{Body: v1.Versions{Items: []v1.Version{}}}
	for _, v := range all {
		switch {
		case in.Before != 0 && v.Revision >= in.Before:
		case len(out.Body.Items) == in.Limit:
			out.Body.Next = out.Body.Items[in.Limit-1].Revision
			return out, nil
		default:
			out.Body.Items = append(out.Body.Items, about(v))
		}
	}
	return out, nil
}

type versionInput struct {
	Revision uint64 `path:"revision" minimum:"1"`
}

func (o *operations) version(ctx context.Context, in *versionInput) (*api.Body[v1.VersionDocument], error) {
	v, err := o.Store.Version(ctx, in.Revision)
	if err != nil {
		return nil, err
	}
	text, err := o.Store.Document(ctx, v)
	return &api.Body[v1.VersionDocument]{Body: v1.VersionDocument{Version: about(v), Document: string(text)}}, err
}

// validate finds what `weir rules validate` finds in rules. Tests may be about another mode of a rule than that on trial.
func (o *operations) validate(ctx context.Context, in *api.Body[v1.Document]) (*api.Body[v1.Validated], error) {
	out := &api.Body[v1.Validated]{}
	return out, o.try(ctx, func(context.Context) error {
		d, err := o.read(in.Body.Document)
		if err != nil {
			out.Body.Findings = finding.Mistakes(documentName, err)
			return nil
		}
		found := append([]finding.Finding{}, finding.Warnings(d, time.Now())...)
		out.Body = v1.Validated{OK: true, Version: d.Set.Version, Rules: d.Set.Len(), Findings: found}
		return nil
	})
}

// read parses a document as the source of the rules does.
func (o *operations) read(text string) (*rulefile.Document, error) {
	if o.Store == nil {
		return rulefile.Read(documentName, []byte(text)) // a file may state its revision
	}
	return versions.Parse(documentName, []byte(text))
}

// about is a version as the API tells it.
func about(v versions.Version) v1.Version {
	return v1.Version{Revision: v.Revision, When: v.When, Who: v.Who, Why: v.Why, RollbackTo: v.RollbackTo, Amends: v.Amends, Size: v.Size, SHA256: v.SHA256}
}

// tag is the entity tag of the newest version; that of none is 0.
func tag(v versions.Version) string { return strconv.Quote(strconv.FormatUint(v.Revision, 10)) }

// readOnly is the problem where no store keeps versions.
func (o *operations) readOnly() error {
	where := "--rules names no file"
	if o.Rules != "" {
		where = "the rules are in the file " + o.Rules + ", which is read again when it changes: edit it where it is"
	}
	return v1.NewProblem(http.StatusConflict, v1.CodeReadOnly, where+"; the API keeps and changes versions of rules only where they are in Consul (--rules consul:) or beside the state file (--rules store:)")
}

// problem is the problem that an error of a store is; nil: there is none.
func problem(err error) error {
	var lost *versions.LostError
	var amendment *versions.WrongError
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*v1.Problem)):
		return err
	case errors.As(err, &lost):
		return v1.NewProblem(http.StatusPreconditionFailed, v1.CodeChanged, err.Error()).With("ETag", tag(lost.Winner))
	case errors.Is(err, amend.ErrNone):
		return v1.NewProblem(http.StatusNotFound, v1.CodeNoEntry, err.Error())
	case errors.As(err, &amendment):
		return v1.NewProblem(http.StatusUnprocessableEntity, v1.CodeAmendment, "nothing was changed: "+err.Error())
	case errors.Is(err, versions.ErrNone):
		return v1.NewProblem(http.StatusNotFound, v1.CodeNoVersion, err.Error())
	}
	detail := err.Error()
	if rejected := new(consul.RejectedError); errors.As(err, &rejected) && rejected.Code == http.StatusForbidden {
		detail += "; this is the token of the program, which needs a policy for what the API shall change"
	}
	return v1.NewProblem(http.StatusServiceUnavailable, v1.CodeStore, detail+"; the rules in force stay")
}
