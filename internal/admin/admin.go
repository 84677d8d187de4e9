// Package admin serves the endpoints for operators: liveness, readiness, metrics and the admin API.
package admin

import (
	"io"
	"net/http"
	"net/http/pprof"
	"strings"
)

// Config is what the handler shows. All functions are safe for concurrent use.
type Config struct {
	Ready   *Readiness
	Metrics http.Handler
	// API serves what is below /v1/; nil: there is none.
	API http.Handler
	// Page serves / and what is below it, but for the rest; nil: there is none.
	Page http.Handler
	// Profiles serves what is below /debug/pprof/; nil: there is none.
	Profiles http.Handler
}

// Handler serves
//
//	/healthz   200 as long as the process runs
//	/readyz    200 when it should get calls, else 503 and the reasons, one per line
//	/startedz  200 once it has been ready, else what /readyz answers
//	/metrics   Prometheus' text format
//
// and the API, profiles and a page, which guard themselves.
func Handler(c Config) http.Handler {
	mux := http.NewServeMux()
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
	if c.API != nil {
		mux.Handle("/v1/", c.API)
	}
	if c.Page != nil {
		mux.Handle("/", c.Page)
	}
	if c.Profiles != nil {
		mux.Handle("/debug/pprof/", c.Profiles)
	}
	return mux
}

// Profiles serves Go's profiles below /debug/pprof/.
func Profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
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
