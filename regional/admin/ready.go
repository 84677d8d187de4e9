package admin

import (
	"slices"
	"sync"
)

// Readiness is why a process should not get calls. The zero value has no reason:
// ready. It is safe for concurrent use.
type Readiness struct {
	mu      sync.Mutex
	reasons []string
}

// Refuse adds a reason: what is the matter and what to do. Telling it twice adds
// it once.
func (r *Readiness) Refuse(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.reasons, reason) {
		r.reasons = append(r.reasons, reason)
	}
}

// Allow takes a reason back.
func (r *Readiness) Allow(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reasons = slices.DeleteFunc(r.reasons, func(s string) bool { return s == reason })
}

// Reasons are those that stand, in the order in which they came up; none: ready.
func (r *Readiness) Reasons() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.reasons)
}
