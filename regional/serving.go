package main

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/weirlimit/weir/internal/admin"
)

// serving tells callers whether to call here, on the port where they call: load
// balancers in front of replicas, Envoy above all.
type serving struct {
	ready    *admin.Readiness
	draining atomic.Bool
	next     http.Handler
}

// immediately has an Envoy with health checks of this port take the replica off its
// list at once, without waiting for the next check.
const immediately = "X-Envoy-Immediate-Health-Check-Fail"

// ServeHTTP answers GET /healthz with 200 or, while not ready or draining, 503 and why.
// All else is for the service; while draining each answer says that it is.
func (s *serving) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.draining.Load() {
		w.Header().Set(immediately, "true")
	}
	if r.URL.Path != "/healthz" {
		s.next.ServeHTTP(w, r)
		return
	}
	text := "ok\n"
	if reasons := s.ready.Reasons(); len(reasons) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		text = strings.Join(reasons, "\n") + "\n"
	}
	_, _ = io.WriteString(w, text) // whoever asked has gone
}

// drain has callers go elsewhere. Their calls are answered all the same.
func (s *serving) drain() {
	s.ready.Refuse("draining: this process is about to end")
	s.draining.Store(true)
}
