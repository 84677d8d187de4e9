package memory

import (
	"cmp"
	"sync"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/limit"
)

const (
	// debtMemory is how long a debt is remembered at least after it was last reported.
	// Holders repeat a debt about every second.
	debtMemory = 10 * limit.Minute
	// mostDebts bounds the debts of one generation, some 60 bytes each, and so does MaxBytes: both generations
	// take an eighth of it at most. If there are more, the oldest are forgotten sooner: if they are repeated
	// after that, they are charged again.
	mostDebts, leastDebts = 1 << 17, 1 << 10
)

// debts remembers which debts have been charged, in two generations: a debt that is not
// reported again while a generation lasts is forgotten with the next. It is safe for concurrent
// use; the zero value remembers nothing.
type debts struct {
	most        int // of one generation; 0: mostDebts
	mu          sync.Mutex
	now, before map[debt]struct{}
	since       limit.Micros // when now began
	// The debts of each, to be saved without delaying decisions: only ever appended to.
	order, orderBefore []debt
}

// debt is the hash of a counter, the same in every life of a store, and the name of a
// debt, which is a random number.
type debt struct{ Counter, Name uint64 }

// charge takes a debt out of an ask that was charged before, and remembers any other
// as charged: the caller charges it.
func (d *debts) charge(at limit.Micros, a *engine.Ask) {
	if a.Want.Overdrawn <= 0 || a.Want.Debt == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.note(at, debt{engine.Hash(a.Key, a.Policy.Salt()), a.Want.Debt}) {
		a.Want.Overdrawn = 0
	}
}

// note remembers a debt for another while, and reports whether it was known.
func (d *debts) note(at limit.Micros, id debt) bool {
	if age := at - d.since; d.now == nil || age < 0 || age >= debtMemory || len(d.now) >= cmp.Or(d.most, mostDebts) {
		d.now, d.before, d.since = map[debt]struct{}{}, d.now, at
		d.order, d.orderBefore = nil, d.order
	}
	if _, known := d.now[id]; known {
		return true
	}
	d.now[id] = struct{}{}
	d.order = append(d.order, id)
	_, known := d.before[id]
	return known
}

// all are the debts that are remembered, oldest first; some are there twice.
func (d *debts) all() [2][]debt {
	d.mu.Lock()
	defer d.mu.Unlock()
	return [2][]debt{d.orderBefore, d.order}
}

// load remembers a debt that an earlier life of the store has charged.
func (d *debts) load(at limit.Micros, id debt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.note(at, id)
}
