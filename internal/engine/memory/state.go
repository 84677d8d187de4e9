package memory

import (
	"fmt"
	"slices"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/table"
	"github.com/weirlimit/weir/internal/limit"
)

// savedAtOnce is how many bytes of records are made under one lock, or so many and one more counter: some 20 µs.
const savedAtOnce = 16 << 10

// debtsAtOnce is how many debts a record has at most.
const debtsAtOnce = 512

// Save calls put with a record of every counter that is not as good as new, and of the
// debts that have been charged, for a [Loader]. put must not keep the record. Decisions go
// on meanwhile: a shard is locked for records of a few of its counters, so that each
// counter is saved as of one moment, but not all as of the same. It returns the number of
// counters.
func (s *Store) Save(put func(record []byte)) (counters int) {
	r := records{policies: map[*engine.Policy]uint64{}}
	now := s.now()
	s.table.Walk(func(e *table.Entry[value]) bool {
		if e.Value.fresh(e.Policy.Limit, now) {
			return false
		}
		counters++
		r.add(e)
		return len(r.made) >= savedAtOnce
	}, func() bool {
		r.put(put)
		now = s.now()
		return true
	})
	for _, debts := range s.debts.all() {
		for some := range slices.Chunk(debts, debtsAtOnce) {
			put(appendDebts(nil, some))
		}
	}
	return counters
}

// Changed reports whether there was an ask since it was last called.
func (s *Store) Changed() bool { return s.changed.Swap(false) }

// records are those of counters, made while their shard is locked.
type records struct {
	made     []byte
	ends     []int                     // of each of them
	policies map[*engine.Policy]uint64 // numbers of those that have a record
}

// add makes the record of a counter, after that of its policy if it is the first one.
func (r *records) add(e *table.Entry[value]) {
	number, known := r.policies[e.Policy]
	if !known {
		number = uint64(len(r.policies))
		r.policies[e.Policy] = number
		r.made = appendPolicy(r.made, number, e.Policy)
		r.ends = append(r.ends, len(r.made))
	}
	if v := &e.Value; v.slots != nil {
		r.made = appendSlots(r.made, number, e.Key(), v.slots)
	} else {
		r.made = appendCounter(r.made, number, e.Key(), v.counter)
	}
	r.ends = append(r.ends, len(r.made))
}

// put passes on what was made.
func (r *records) put(put func([]byte)) {
	from := 0
	for _, end := range r.ends {
		put(r.made[from:end])
		from = end
	}
	r.made, r.ends = r.made[:0], r.ends[:0]
}

// Loader puts saved counters into a store. If its rule is gone or has changed its shape, a
// counter is kept like any other until it is as good as new.
type Loader struct {
	store    *Store
	now      limit.Micros
	policies map[uint64]*engine.Policy

	Loaded int // counters
	Fresh  int // left out: as good as new by now
	NoRoom int // left out: the store is smaller than it was
}

// Loader makes one.
func (s *Store) Loader() *Loader {
	return &Loader{store: s, now: s.now(), policies: map[uint64]*engine.Policy{}}
}

// Put loads a record. A counter that the store has already is left as it is. The error
// names what is wrong with a record, of which nothing is loaded.
func (l *Loader) Put(record []byte) error {
	f := fields{b: record}
	kind, number := f.octet(), f.unsigned()
	p := l.policies[number]
	switch {
	case kind == kindPolicy:
		if p = f.policy(); f.err == nil {
			l.policies[number] = p
		}
	case kind == kindDebts:
		for _, d := range list[debt](&f) {
			l.store.debts.load(l.now, d)
		}
	case kind != kindCounter && kind != kindSlots:
	case p == nil:
		f.fail(fmt.Sprintf("has a counter of policy %d, which is not there", number))
	default:
		var v value
		key := f.text()
		if kind == kindCounter {
			v.counter = f.counter(p.Limit)
		} else {
			f.demand(p.Limit.Concurrent(), "slots")
			v.slots = f.slots()
		}
		if f.err == nil {
			l.add(p, key, v)
		}
	}
	return f.err
}

func (l *Loader) add(p *engine.Policy, key []byte, v value) {
	if v.fresh(p.Limit, l.now) {
		l.Fresh++
		return
	}
	t := l.store.table
	hash := t.Hash(p, key)
	shard := t.Shard(hash)
	shard.Lock()
	defer shard.Unlock()
	if shard.Find(hash, p, key) != nil {
		return
	}
	var e *table.Entry[value]
	if !shard.Over(v.bytes()) {
		e = shard.Add(hash, p, key)
	}
	if e == nil {
		l.NoRoom++
		return
	}
	e.Value = v
	e.Value.release(shard)
	l.Loaded++
}
