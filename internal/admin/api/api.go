// Package api has the parts of the admin API that all operations share: authentication, rate limits of callers, errors and
// the audit log. Packages below it add their operations with [Add] and [AddStream].
//
//	api.go      operations and their description in OpenAPI, and who calls
//	guard.go    checks of every call
//	limits.go   calls and streams of one caller
//	audit.go    the audit log
package api

import (
	"context"
	"log/slog"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/danielgtaylor/huma/v2/sse"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/internal/repeat"
	"github.com/weirlimit/weir/internal/ruleset/finding"
	"github.com/weirlimit/weir/internal/ruleset/request"
	"github.com/weirlimit/weir/internal/ruleset/versions"
	"github.com/weirlimit/weir/internal/telemetry"
)

// Config is what the frame needs to know of the program.
type Config struct {
	Loopback bool            // only this machine can reach the port
	Local    bool            // calls to a loopback address of the port are of this machine
	Secure   bool            // the port has TLS
	Callers  *access.List    // who may call; nil: everybody on this machine, if Loopback or Local
	Trail    *versions.Store // keeps the audit; nil: only the log does
	Log      *slog.Logger
	Metrics  *telemetry.Registry
}

// API is an admin API. It is safe for concurrent use once all operations are added.
type API struct {
	cfg      Config
	huma     huma.API
	mux      *http.ServeMux
	cross    *http.CrossOriginProtection
	limits   *limits
	ended    context.Context // ends streams
	end      context.CancelFunc
	rejected *telemetry.CounterVec
	logged   repeat.OncePerMinute // a rejection: callers who are rejected must not fill the log
}

// New makes an API without operations.
func New(c Config) *API {
	problemsOnly()
	a := &API{cfg: c, mux: http.NewServeMux(), cross: http.NewCrossOriginProtection(), limits: newLimits()}
	a.ended, a.end = context.WithCancel(context.Background())
	a.rejected = c.Metrics.Counters("weir_admin_rejected_total", "Calls of the admin API that were rejected before they were looked at, by the code of the problem.", "code")
	a.huma = humago.New(a.mux, huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info:    &huma.Info{Title: "Weir's admin API", Version: "1", Description: "docs/api.md explains it."},
			Components: &huma.Components{
				Schemas:         huma.NewMapRegistry("#/components/schemas/", schemaName),
				SecuritySchemes: map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}, "certificate": {Type: "mutualTLS"}},
			},
		},
		Formats:       map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat},
		DefaultFormat: "application/json",
	})
	a.mux.HandleFunc("GET /v1/openapi.yaml", func(w http.ResponseWriter, _ *http.Request) {
		text, _ := a.huma.OpenAPI().YAML() // a test writes it to docs/openapi.yaml
		w.Header().Set("Content-Type", "application/openapi+yaml")
		_, _ = w.Write(text) // the client has gone
	})
	a.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		write(w, v1.NewProblem(http.StatusNotFound, v1.CodeUnknown, "there is no "+r.Method+" "+r.URL.Path+"; GET /v1/openapi.yaml lists what there is"))
	})
	a.addAudit()
	Add(a, access.Viewer, huma.Operation{
		OperationID: "whoami", Method: http.MethodGet, Path: "/v1/whoami", Summary: "Name and role of the client that makes this call",
	}, whoami)
	return a
}

// schemaName names a schema as its type; a request of an example has the name of a request that is asked about.
func schemaName(t reflect.Type, hint string) string {
	if t == reflect.TypeFor[*request.Request]() {
		return "Example"
	}
	return huma.DefaultSchemaNamer(t, hint)
}

// End ends all streams: the process is about to end.
func (a *API) End() { a.end() }

// problemsOnly makes huma answer mistakes in the form of a request with problems, too, and describe lists as what they are.
var problemsOnly = sync.OnceFunc(func() {
	huma.DefaultArrayNullable = false
	huma.NewError = func(status int, detail string, errs ...error) huma.StatusError {
		p := v1.NewProblem(status, "", detail)
		for _, err := range errs {
			f := finding.Finding{File: "request", Code: "request"}
			if d, ok := err.(huma.ErrorDetailer); ok { // without the value, which may be large, or a secret
				f.Path, f.Reason = d.ErrorDetail().Location, d.ErrorDetail().Message
			} else if err != nil {
				f.Reason = err.Error()
			}
			p.Findings = append(p.Findings, f)
		}
		return p
	}
})

// Body is a call, or an answer, that is a body alone.
type Body[T any] struct{ Body T }

// Add adds an operation that callers of a role, or a higher one, may use.
func Add[In, Out any](a *API, least access.Role, op huma.Operation, do func(context.Context, *In) (*Out, error)) {
	a.prepare(least, &op)
	huma.Register(a.huma, op, do)
}

// AddStream adds the operation of [StreamPath], whose answer is events: by their names, a value of the type of each. It
// ends with ctx. Who does not take an event within 5 s is cut off.
func AddStream[In any](a *API, least access.Role, op huma.Operation, events map[string]any, do func(ctx context.Context, in *In, send sse.Sender)) {
	a.prepare(least, &op)
	sse.Register(a.huma, op, events, do)
}

// prepare keeps callers of lower roles from an operation.
func (a *API) prepare(least access.Role, op *huma.Operation) {
	op.Description = strings.TrimSpace("Role: " + least.String() + ". " + op.Description)
	op.Security = []map[string][]string{{"token": {}}, {"certificate": {}}}
	op.RejectUnknownQueryParameters = true
	op.Middlewares = append(op.Middlewares, func(ctx huma.Context, next func(huma.Context)) {
		if p := permit(Caller(ctx.Context()), least); p != nil {
			_, w := humago.Unwrap(ctx)
			a.reject(w, p, ctx.RemoteAddr())
			return
		}
		next(ctx)
	})
}

// permit is why a caller may not do what needs a role; nil: it may.
func permit(c access.Caller, least access.Role) *v1.Problem {
	if c.Role >= least {
		return nil
	}
	return v1.NewProblem(http.StatusForbidden, v1.CodeForbidden, c.Name+" is "+c.Role.String()+", and this needs the role "+least.String()+
		"; --admin-tokens has the roles")
}

// callerKey is where a call has its caller.
type callerKey struct{}

// Caller is who makes a call.
func Caller(ctx context.Context) access.Caller {
	c, _ := ctx.Value(callerKey{}).(access.Caller)
	return c
}

func whoami(ctx context.Context, _ *struct{}) (*Body[v1.Whoami], error) {
	caller := Caller(ctx)
	out := &Body[v1.Whoami]{v1.Whoami{Name: caller.Name, Role: caller.Role.String(), Prefix: caller.Prefix}}
	if !caller.Until.IsZero() {
		out.Body.Until = &caller.Until
	}
	return out, nil
}
