package server

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/weirlimit/weir/internal/admin"
)

// Health answers health checks on the port that callers use. They come from load
// balancers in front of replicas, most of all from Envoy.
type Health struct {
	ready    *admin.Readiness
	next     http.Handler
	draining atomic.Bool
}

// NewHealth makes a handler that answers health checks by readiness, and leaves all
// other requests to next.
func NewHealth(ready *admin.Readiness, next http.Handler) *Health {
	return &Health{ready: ready, next: next}
}

// immediateFail makes an Envoy with health checks of this port take the replica off its
// list at once, without waiting for the next check.
const immediateFail = "X-Envoy-Immediate-Health-Check-Fail"

// ServeHTTP answers GET /healthz with 200 or, while not ready or draining, with 503 and
// the reasons. While draining all responses have the header for Envoy.
func (h *Health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.draining.Load() {
		w.Header().Set(immediateFail, "true")
	}
	if r.URL.Path != "/healthz" {
		h.next.ServeHTTP(w, r)
		return
	}
	text := "ok\n"
	if reasons := h.ready.Reasons(); len(reasons) > 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		text = strings.Join(reasons, "\n") + "\n"
	}
	_, _ = io.WriteString(w, text) // the client has gone
}

// Drain makes callers go elsewhere. Their calls are still answered.
func (h *Health) Drain() {
	h.ready.Block("draining: this process is about to end")
	h.draining.Store(true)
}
