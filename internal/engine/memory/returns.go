package memory

import (
	"sync"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/limit"
)

const (
	// returnMemory is how long the name of a give-back is remembered at least.
	returnMemory = limit.Minute
	// mostReturns bounds the names of one generation, some 20 bytes each, and mostOfOne those of one
	// region or holder. Units that come back beyond that are lost until their charge expires.
	mostReturns = 1 << 20
	mostOfOne   = mostReturns / 8
)

// returns remembers what came back under a name. It is safe for concurrent use; the zero
// value remembers nothing.
type returns struct {
	mu sync.Mutex
	generations[uint64]
	by map[uint64]int // how many of the younger set are of whom
}

// take takes out of an ask the units that came back before, or cannot be remembered.
func (r *returns) take(at limit.Micros, a *engine.Ask) {
	if a.Returned == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range a.Returned {
		if !r.note(at, one.Name, a.ReturnedBy) {
			a.Want.Unused -= one.Units
		}
	}
}

// note remembers a name, and reports whether it is new and there is room for it.
func (r *returns) note(at limit.Micros, name, by uint64) bool {
	if r.over(at, returnMemory) {
		r.next(at)
		r.by = map[uint64]int{}
	}
	_, lately := r.now[name]
	_, before := r.before[name]
	if lately || before || len(r.now) >= mostReturns || r.by[by] >= mostOfOne {
		return false
	}
	r.now[name] = struct{}{}
	r.by[by]++
	return true
}

// generations are two sets, a younger and an older one. What is in neither is forgotten.
type generations[K comparable] struct {
	now, before map[K]struct{}
	since       limit.Micros // when now began
}

// over reports whether the younger set is at least this old.
func (g *generations[K]) over(at, lasts limit.Micros) bool {
	age := at - g.since
	return g.now == nil || age < 0 || age >= lasts
}

// next begins a new set, and forgets the older one.
func (g *generations[K]) next(at limit.Micros) {
	g.now, g.before, g.since = map[K]struct{}{}, g.now, at
}
