package admin

import (
	"slices"
	"sync"
)

// Readiness has the reasons why a process should not get calls. The zero value has none:
// ready. It is safe for concurrent use.
type Readiness struct {
	mu      sync.Mutex
	reasons []string
	started bool // there was a change after which there was none
	notify  []func(ready bool)
}

// Notify calls f with whether the process is ready: now and at each change of the reasons,
// one call at a time. f must not call r.
func (r *Readiness) Notify(f func(ready bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notify = append(r.notify, f)
	f(len(r.reasons) == 0)
}

// changed notifies all. The caller holds mu.
func (r *Readiness) changed() {
	r.started = r.started || len(r.reasons) == 0
	for _, f := range r.notify {
		f(len(r.reasons) == 0)
	}
}

// Block adds a reason: what is wrong and what to do. A reason that is there already is
// not added again.
func (r *Readiness) Block(reason string) {
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

// Started reports whether the process is ready or has been, which nothing takes back.
func (r *Readiness) Started() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.started || len(r.reasons) == 0
}

// Reasons returns the current reasons in the order in which they were added; none: ready.
func (r *Readiness) Reasons() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.reasons)
}
