package rulesapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/weirlimit/weir/internal/admin/api"
	v1 "github.com/weirlimit/weir/internal/admin/v1"
	"github.com/weirlimit/weir/internal/ruleset/finding"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/versions"
)

const (
	// maxBody has room for the largest document, each byte of which may be escaped by another one.
	maxBody = 2*rulefile.MaxBytes + 64<<10
	// bodyTime bounds how long a document may take to arrive.
	bodyTime = time.Minute
	// parseWait bounds how long a call waits for its turn.
	parseWait = 10 * time.Second
	// documentName names the document in findings.
	documentName = "document"
)

type putInput struct {
	IfMatch string `header:"If-Match" doc:"ETag of the rules that the document was made of; that of no version is \"0\"."`
	Body    v1.Change
}

type appliedOutput struct {
	ETag string `header:"ETag"`
	Body v1.Applied
}

// wrongError is what is wrong with a document.
type wrongError struct{ error }

// turn waits until no other call of a queue has a document parsed, and returns what ends the turn.
func turn(ctx context.Context, queue chan struct{}) (end func(), err error) {
	wait := time.NewTimer(parseWait)
	defer wait.Stop()
	select {
	case queue <- struct{}{}:
		return func() { <-queue }, nil
	case <-wait.C:
		return nil, v1.NewProblem(http.StatusServiceUnavailable, v1.CodeTooMany, "other documents are being checked; try again")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// read parses a document in turn. The error is a wrongError unless others take too long.
func (o *operations) read(ctx context.Context, queue chan struct{}, text string) (*rulefile.Document, error) {
	end, err := turn(ctx, queue)
	if err != nil {
		return nil, err
	}
	defer end()
	parse := versions.Parse
	if o.Store == nil {
		parse = rulefile.Read // a file may state its revision
	}
	d, err := parse(documentName, []byte(text))
	if err != nil {
		return nil, &wrongError{err}
	}
	return d, nil
}

// put makes a version. It does not end with the call: the caller would not know what is in force.
func (o *operations) put(ctx context.Context, in *putInput) (*appliedOutput, error) {
	if err := o.kept(); err != nil {
		return nil, err
	}
	change := versions.Change{Who: api.Caller(ctx).Name, Why: in.Body.Why}
	if err := matches(in.IfMatch, &change); err != nil {
		return nil, err
	}
	d, err := o.read(ctx, o.changes, in.Body.Document)
	if err != nil {
		return nil, problem(err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	before, err := o.Store.Current(ctx)
	if err != nil && !mayRepair(ctx, err) {
		return nil, problem(err)
	}
	if err := o.within(ctx, before, d); err != nil {
		return nil, problem(err)
	}
	v, err := o.Store.Apply(ctx, d, change)
	if err != nil {
		return nil, problem(err)
	}
	return o.applied(ctx, "rules.apply", change.On, v, finding.Warnings(d, time.Now())), nil
}

// mayRepair reports whether the caller may put rules in the place of those that cannot be read: which rules others have
// there, nobody knows.
func mayRepair(ctx context.Context, err error) bool {
	return api.Caller(ctx).Prefix == "" && errors.As(err, new(*versions.DamagedError))
}

type rollbackInput struct {
	IfMatch string `header:"If-Match" doc:"If it is sent: ETag of the newest rules, as GET /v1/rules has it."`
	Body    v1.Rollback
}

func (o *operations) rollback(ctx context.Context, in *rollbackInput) (*appliedOutput, error) {
	if err := o.kept(); err != nil {
		return nil, err
	}
	change := versions.Change{Who: api.Caller(ctx).Name, Why: in.Body.Why}
	if err := mayMatch(in.IfMatch, &change); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTime)
	defer cancel()
	before, err := o.Store.Current(ctx)
	if err != nil && (in.Body.Revision == 0 || !mayRepair(ctx, err)) {
		return nil, problem(err)
	}
	if api.Caller(ctx).Prefix != "" {
		earlier, err := o.Store.Earlier(ctx, in.Body.Revision, before)
		if err != nil {
			return nil, problem(err)
		}
		text, err := o.Store.Document(ctx, earlier)
		if err != nil {
			return nil, problem(err)
		}
		d, err := o.read(ctx, o.changes, string(text))
		if err == nil {
			err = o.within(ctx, before, d)
		}
		if err != nil {
			return nil, problem(err)
		}
		if change.On == 0 {
			change.On = before.Revision // what was looked at
		}
	}
	v, err := o.Store.Rollback(ctx, in.Body.Revision, change)
	if err != nil {
		return nil, problem(err)
	}
	return o.applied(ctx, "rules.rollback", before.Revision, v, nil), nil
}

// applied records a new version, deletes what nobody needs any more, and tells of both.
func (o *operations) applied(ctx context.Context, what string, before uint64, v versions.Version, warnings []finding.Finding) *appliedOutput {
	number := func(revision uint64) string { return "revision " + strconv.FormatUint(revision, 10) }
	on := ""
	if v.RollbackTo != 0 {
		on = number(v.RollbackTo)
	}
	o.api.Record(ctx, v1.AuditEntry{What: what, On: on, Before: number(before), After: number(v.Revision), Why: v.Why})
	_ = o.Store.Clean(ctx) // the next version cleans up what is left
	return &appliedOutput{tag(v), v1.Applied{Version: *about(v), Before: before, Warnings: append([]finding.Finding{}, warnings...)}}
}
