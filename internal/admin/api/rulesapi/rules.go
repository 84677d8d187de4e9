// Package rulesapi has the operations of the admin API on rules: read them, check them, put them in force, go back, and
// amend them with overrides and candidates.
//
//	rules.go     reading, and what the operations need
//	change.go    new versions
//	history.go   versions that are kept
//	validate.go  a check without consequences
//	amend.go     overrides and candidates
//	prefix.go    callers who may change some rules only
package rulesapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/internal/admin/api"
	v1 "github.com/weirlimit/weir/internal/admin/v1"
	"github.com/weirlimit/weir/internal/consul"
	"github.com/weirlimit/weir/internal/ruleset/amend"
	"github.com/weirlimit/weir/internal/ruleset/finding"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/versions"
)

// Store keeps versions of the rules.
type Store interface {
	Current(ctx context.Context) (versions.Version, error)
	History(ctx context.Context) ([]versions.Version, error)
	Version(ctx context.Context, revision uint64) (versions.Version, error)
	Earlier(ctx context.Context, revision uint64, current versions.Version) (versions.Version, error)
	Document(ctx context.Context, v versions.Version) ([]byte, error)
	Apply(ctx context.Context, d *rulefile.Document, c versions.Change) (versions.Version, error)
	Rollback(ctx context.Context, revision uint64, c versions.Change) (versions.Version, error)
	List(ctx context.Context, now time.Time) (versions.Listed, error)
	Amend(ctx context.Context, edit amend.Edit, c versions.Change) (versions.Version, error)
	Clean(ctx context.Context) error
}

// Config is where the rules of a program are.
type Config struct {
	Store  Store  // nil: they are in a file
	Source string // what the store is: consul or store
	File   string // the rules file, if there is no store; empty: there are no rules
	// InForce is what the program has in force.
	InForce func() v1.InForce
}

// storeTime bounds the calls of the store for one operation.
const storeTime = 20 * time.Second

// operations answers the calls.
type operations struct {
	Config
	api *api.API
	// changes and reads have room for one call each that has a document parsed: 8 MiB of rules take much memory. They
	// are two, so that no viewer keeps admins from changing rules.
	changes, reads chan struct{}
}

// Add adds the operations to an API.
func Add(a *api.API, c Config) {
	o := &operations{Config: c, api: a, changes: make(chan struct{}, 1), reads: make(chan struct{}, 1)}
	const path = "/v1/rules"
	api.Add(a, access.Viewer, huma.Operation{
		OperationID: "get-rules", Method: http.MethodGet, Path: path, Summary: "The newest rules, and what is in force",
	}, o.get)
	api.Add(a, access.Admin, huma.Operation{
		OperationID: "put-rules", Method: http.MethodPut, Path: path, Summary: "Put rules in force, as a new version",
		Description:  "Of two who change the same version, the second one gets 412, and nothing is changed.",
		MaxBodyBytes: maxBody, BodyReadTimeout: bodyTime,
	}, o.put)
	api.Add(a, access.Viewer, huma.Operation{
		OperationID: "validate-rules", Method: http.MethodPost, Path: path + ":validate", Summary: "Check rules: all mistakes and warnings",
		MaxBodyBytes: maxBody, BodyReadTimeout: bodyTime,
	}, o.validate)
	api.Add(a, access.Viewer, huma.Operation{
		OperationID: "list-versions", Method: http.MethodGet, Path: path + "/versions", Summary: "The last 100 versions of the rules",
	}, o.list)
	api.Add(a, access.Viewer, huma.Operation{
		OperationID: "get-version", Method: http.MethodGet, Path: path + "/versions/{revision}", Summary: "A version of the rules",
	}, o.version)
	api.Add(a, access.Admin, huma.Operation{
		OperationID: "rollback-rules", Method: http.MethodPost, Path: path + ":rollback", Summary: "Put the rules of an earlier version in force again, as a new version",
	}, o.rollback)
	o.addAmendments()
}

type getOutput struct {
	ETag string `header:"ETag" doc:"Revision of the newest version, as If-Match wants it."`
	Body v1.Rules
}

func (o *operations) get(ctx context.Context, _ *struct{}) (*getOutput, error) {
	out := &getOutput{Body: v1.Rules{Source: o.Source, InForce: o.InForce()}}
	if o.Store == nil {
		return o.getFile(out)
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	v, err := o.Store.Current(ctx)
	if err == nil && !v.Zero() {
		var text []byte
		text, err = o.Store.Document(ctx, v)
		out.Body.Version, out.Body.Document = about(v), string(text)
	}
	out.ETag = tag(v)
	return out, problem(err)
}

func (o *operations) getFile(out *getOutput) (*getOutput, error) {
	if o.File == "" {
		out.Body.Source, out.Body.Document = "none", "rules: []\n"
		return out, nil
	}
	files, err := rulefile.ReadFiles(o.File)
	if err != nil {
		return nil, problem(err)
	}
	text := files[0].Data
	if len(files) > 1 || files[0].Name != o.File {
		d, err := rulefile.Merge(o.File, files)
		if err != nil {
			return nil, problem(err)
		}
		text = d.Text
	}
	sum := sha256.Sum256(text)
	out.Body.Source, out.Body.Document, out.ETag = "file", string(text), strconv.Quote(hex.EncodeToString(sum[:8]))
	return out, nil
}

// about is a version as the API tells it.
func about(v versions.Version) *v1.Version {
	return &v1.Version{Revision: v.Revision, When: v.When, Who: v.Who, Why: v.Why, RollbackTo: v.RollbackTo, Amends: v.Amends, Size: v.Size, SHA256: v.SHA256}
}

// tag is the entity tag of the newest version; that of none is 0.
func tag(v versions.Version) string { return strconv.Quote(strconv.FormatUint(v.Revision, 10)) }

// kept refuses what needs a store of versions.
func (o *operations) kept() error {
	where := "--rules names no file"
	switch {
	case o.Store != nil:
		return nil
	case o.File != "":
		where = "the rules are in the file " + o.File + ", which is read again when it changes: edit it where it is"
	}
	return v1.NewProblem(http.StatusConflict, v1.CodeReadOnly, where+"; the API keeps and changes versions of rules only where they are in Consul (--rules consul:) or beside the state file (--rules store:)")
}

// problem is the problem that an error of a store is; nil: there is none.
func problem(err error) error {
	var lost *versions.LostError
	var mistakes *wrongError
	var amendment *versions.WrongError
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*v1.Problem)):
		return err
	case errors.As(err, &mistakes):
		p := v1.NewProblem(http.StatusUnprocessableEntity, v1.CodeWrong, "nothing was changed: the document has mistakes")
		p.Findings = finding.Mistakes(documentName, mistakes.error)
		return p
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
	if refused := new(consul.RefusedError); errors.As(err, &refused) && refused.Code == http.StatusForbidden {
		detail += "; this is the token of the program, which needs a policy for what the API shall change"
	}
	return v1.NewProblem(http.StatusServiceUnavailable, v1.CodeStore, detail+"; the rules in force stay")
}

// mayMatch is matches for a change that may be made of whatever is the newest.
func mayMatch(header string, c *versions.Change) error {
	if header == "" {
		return nil
	}
	return matches(header, c)
}

// matches reads If-Match into what a change was made of.
func matches(header string, c *versions.Change) error {
	if header == "" {
		return v1.NewProblem(http.StatusPreconditionRequired, v1.CodePrecondition, "If-Match is missing; send the ETag of the rules that you have changed, as GET /v1/rules has it")
	}
	revision, err := strconv.ParseUint(strings.Trim(strings.TrimPrefix(header, "W/"), `"`), 10, 64)
	if err != nil {
		return v1.NewProblem(http.StatusBadRequest, v1.CodePrecondition, "If-Match must be one ETag, as GET /v1/rules has it")
	}
	c.On, c.First = revision, revision == 0
	return nil
}
