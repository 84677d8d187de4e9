// Package admin serves the endpoints for operators: liveness, readiness, metrics, the rules in force, and the admin API
// beside them.
package admin

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/pprof"
	"strings"

	"github.com/weirlimit/weir/internal/admin/access"
)

// Config is what the handler shows. All functions are safe for concurrent use.
type Config struct {
	Ready   *Readiness
	Metrics http.Handler
	// Rules returns the version and the compiled form, JSON, of the rules in force.
	Rules func() (version string, compiled []byte)
	// State returns the number of their revision, and why newer ones are not in force; empty:
	// there are none.
	State func() (revision uint64, problem string)
	// Forget takes a region for dead; nil: there are none.
	Forget func(ctx context.Context, region string) error
	// API serves what is below /v1/; nil: there is none.
	API http.Handler
	// Page serves / and what is below it, but for the rest; nil: there is none.
	Page http.Handler
	// Guard lets callers of a role use the paths below it that are neither health nor metrics; nil: everybody may.
	Guard func(least access.Role, next http.Handler) http.Handler
	Pprof bool // serve /debug/pprof/
}

// Handler serves
//
//	/healthz   200 as long as the process runs
//	/readyz    200 when it should get calls, else 503 and the reasons, one per line
//	/startedz  200 once it has been ready, else what /readyz answers
//	/metrics   Prometheus' text format
//	/rules     {"version": ..., "revision": ..., "error": ..., "rules": compiled form}
//
// and POST /regions/NAME/dead, which takes a region for dead: 200, or 409 and why not.
func Handler(c Config) http.Handler {
	mux := http.NewServeMux()
	guarded := func(pattern string, least access.Role, h http.HandlerFunc) {
		if c.Guard == nil {
			mux.Handle(pattern, h)
			return
		}
		mux.Handle(pattern, c.Guard(least, h))
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", c.ready)
	mux.HandleFunc("GET /startedz", func(w http.ResponseWriter, r *http.Request) {
		if !c.Ready.Started() {
			c.ready(w, r)
			return
		}
		text(w, http.StatusOK, "started")
	})
	mux.Handle("GET /metrics", c.Metrics)
	guarded("GET /rules", access.Viewer, func(w http.ResponseWriter, _ *http.Request) {
		version, compiled := c.Rules()
		if version == "" {
			text(w, http.StatusServiceUnavailable, "no rules are loaded")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		answer := struct {
			Version  string          `json:"version"`
			Revision uint64          `json:"revision"`
			Error    string          `json:"error,omitempty"`
			Rules    json.RawMessage `json:"rules"`
		}{Version: version, Rules: compiled}
		answer.Revision, answer.Error = c.State()
		out := json.NewEncoder(w)
		out.SetEscapeHTML(false)
		_ = out.Encode(answer) // the client has gone
	})
	if c.Forget != nil {
		guarded("POST /regions/{name}/dead", access.Admin, func(w http.ResponseWriter, r *http.Request) {
			if err := c.Forget(r.Context(), r.PathValue("name")); err != nil {
				text(w, http.StatusConflict, err.Error())
				return
			}
			text(w, http.StatusOK, "nothing is withheld for region "+r.PathValue("name")+" any more")
		})
	}
	if c.API != nil {
		mux.Handle("/v1/", c.API)
	}
	if c.Page != nil {
		mux.Handle("/", c.Page)
	}
	if c.Pprof {
		guarded("/debug/pprof/", access.Admin, pprof.Index)
		guarded("/debug/pprof/profile", access.Admin, pprof.Profile)
		guarded("/debug/pprof/symbol", access.Admin, pprof.Symbol)
		guarded("/debug/pprof/trace", access.Admin, pprof.Trace)
	}
	return mux
}

func (c *Config) ready(w http.ResponseWriter, _ *http.Request) {
	if reasons := c.Ready.Reasons(); len(reasons) > 0 {
		text(w, http.StatusServiceUnavailable, "not ready: "+strings.Join(reasons, "\nnot ready: "))
		return
	}
	text(w, http.StatusOK, "ready")
}

func text(w http.ResponseWriter, status int, message string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, message+"\n") // the client has gone
}
