package membudget

import "sync"

// InFlight bounds the bytes of calls in flight. One caller may have a quarter of them: whoever sends too much is
// rejected alone. It is safe for concurrent use.
type InFlight[K comparable] struct {
	most int64 // 0: without a bound
	mu   sync.Mutex
	all  int64
	of   map[K]int64 // callers that have any
}

// NewInFlight makes a bound of so many bytes; 0: there is none.
func NewInFlight[K comparable](most int64) *InFlight[K] {
	return &InFlight[K]{most: most, of: make(map[K]int64)}
}

// Take takes bytes for a call, or reports false and takes none.
func (f *InFlight[K]) Take(caller K, bytes int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	has := f.of[caller] + bytes
	if f.most > 0 && (f.all+bytes > f.most || has > f.most/4) {
		return false
	}
	f.all, f.of[caller] = f.all+bytes, has
	return true
}

// Give gives back what a caller took.
func (f *InFlight[K]) Give(caller K, bytes int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.all -= bytes
	if has := f.of[caller] - bytes; has > 0 {
		f.of[caller] = has
	} else {
		delete(f.of, caller)
	}
}
