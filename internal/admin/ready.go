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
	tell    func(ready bool) // nil: nobody
}

// Notify calls tell, of which there is one, with whether the process is ready: now
// and whenever a reason comes or goes, one call at a time. It must not call r.
func (r *Readiness) Notify(tell func(ready bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tell = tell
	r.changed()
}

// changed tells how it stands. The caller holds mu.
func (r *Readiness) changed() {
	if r.tell != nil {
		r.tell(len(r.reasons) == 0)
	}
}

// Refuse adds a reason: what is the matter and what to do. Telling it twice adds
// it once.
func (r *Readiness) Refuse(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.reasons, reason) {
		r.reasons = append(r.reasons, reason)
		r.changed()
	}
}

// Allow takes a reason back.
func (r *Readiness) Allow(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reasons = slices.DeleteFunc(r.reasons, func(s string) bool { return s == reason })
	r.changed()
}

// Reasons are those that stand, in the order in which they came up; none: ready.
func (r *Readiness) Reasons() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.reasons)
}
