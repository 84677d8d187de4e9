package memory

import (
	"errors"
	"fmt"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/table"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/limit"
)

// copyMost is how many bytes are copied under one lock, or so many and one more counter:
// some 10 µs.
const copyMost = 32 << 10

// debtsAtOnce is how many debts a record has at most.
const debtsAtOnce = 512

// Save calls put with a record of every counter that is not as good as new, and of the
// debts that have been charged, for a [Loader]. put must not keep the record. Decisions go
// on meanwhile: a shard is locked while a few of its counters are copied, so that each
// counter is saved as of one moment, but not all as of the same. It returns the number of
// counters.
func (s *Store) Save(put func(record []byte)) (counters int) {
	c := copies{policies: map[*engine.Policy]uint64{}, put: put}
	now := s.now()
	s.table.Walk(func(e *table.Entry[value]) bool {
		if e.Value.fresh(e.Policy.Limit, now) {
			return false
		}
		counters++
		return c.take(e)
	}, func() bool {
		c.write()
		now = s.now()
		return true
	})
	for _, debts := range s.debts.all() {
		for len(debts) > 0 {
			n := min(len(debts), debtsAtOnce)
			put(appendDebts(nil, debts[:n]))
			debts = debts[n:]
		}
	}
	return counters
}

// Changed reports whether there was an ask since it was last called.
func (s *Store) Changed() bool { return s.changed.Swap(false) }

// copies are counters on their way from the table to records.
type copies struct {
	items  []copied
	keys   []byte
	log    []limit.Charge
	held   []limit.Holding
	stated []granter.Statement
	size   int // bytes of all of them

	policies map[*engine.Policy]uint64 // numbers of those that are written
	put      func([]byte)
	record   []byte
}

// copied is one counter. Its parts end where those of the next begin.
type copied struct {
	policy            *engine.Policy
	counter           granter.Counter
	slots             bool
	at                limit.Micros // of the slots
	key               int          // where its key ends
	log, held, stated int          // and the others
}

// take copies a counter, whose shard is locked, and reports whether the copies are enough
// for one lock.
func (c *copies) take(e *table.Entry[value]) bool {
	item := copied{policy: e.Policy}
	c.keys = append(c.keys, e.Key()...)
	if v := &e.Value; v.slots != nil {
		item.slots, item.at = true, v.slots.Held.At
		c.held = append(c.held, v.slots.Held.Held...)
		c.stated = append(c.stated, v.slots.Stated...)
		c.size += 24 * (len(v.slots.Held.Held) + len(v.slots.Stated))
	} else {
		st := &v.counter.State
		item.counter = v.counter
		if st.Log != nil {
			live := st.Live()
			c.log = append(c.log, live...)
			c.size += 16 * len(live)
		}
	}
	item.key, item.log, item.held, item.stated = len(c.keys), len(c.log), len(c.held), len(c.stated)
	c.items = append(c.items, item)
	c.size += len(e.Key())
	return c.size >= copyMost
}

// write makes records of what has been copied.
func (c *copies) write() {
	var last copied
	for i := range c.items {
		item := &c.items[i]
		number := c.number(item.policy)
		key := c.keys[last.key:item.key]
		if item.slots {
			c.record = appendSlots(c.record[:0], number, key, &granter.Slots{
				Held:   limit.Slots{At: item.at, Held: c.held[last.held:item.held]},
				Stated: c.stated[last.stated:item.stated],
			})
		} else {
			st := &item.counter.State
			if st.Log != nil {
				st.Log, st.Aux = c.log[last.log:item.log], 0
			}
			c.record = appendCounter(c.record[:0], number, key, &item.counter)
		}
		c.put(c.record)
		last = *item
	}
	c.items, c.keys, c.log, c.held, c.stated, c.size = c.items[:0], c.keys[:0], c.log[:0], c.held[:0], c.stated[:0], 0
}

// number is the number of a policy, which is written when it is new.
func (c *copies) number(p *engine.Policy) uint64 {
	n, known := c.policies[p]
	if !known {
		n = uint64(len(c.policies))
		c.policies[p] = n
		c.put(appendPolicy(nil, n, p))
	}
	return n
}

// Loader puts saved counters into a store. If its rule is gone or has changed its shape, a
// counter is kept like any other until it is as good as new.
type Loader struct {
	store    *Store
	now      limit.Micros
	policies map[uint64]*engine.Policy

	Loaded  int // counters
	Fresh   int // left out: as good as new by now
	NoRoom  int // left out: the store is smaller than it was
	Ignored int // records of an unknown kind
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
	if f.err != nil {
		return f.err
	}
	if kind == kindPolicy {
		if p := f.policy(); f.err == nil {
			l.policies[number] = p
		}
		return f.err
	}
	if kind == kindDebts {
		for range f.count(16) {
			l.store.debts.load(l.now, debt{f.fixed64(), f.fixed64()})
		}
		return f.err
	}
	if kind != kindCounter && kind != kindSlots {
		l.Ignored++
		return nil
	}
	p := l.policies[number]
	if p == nil {
		return fmt.Errorf("a record has a counter of policy %d, which is not there", number)
	}
	var v value
	key := f.text()
	if kind == kindSlots {
		if p.Limit.Spec().Algorithm != limit.Concurrency {
			return errors.New("a record has slots of a limit that has none")
		}
		v.slots = f.slots()
	} else {
		v.counter = f.counter(p.Limit)
	}
	if f.err == nil {
		l.add(p, key, v)
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
