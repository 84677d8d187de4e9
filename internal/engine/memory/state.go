package memory

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"slices"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/table"
	"github.com/weirlimit/weir/internal/limit"
)

// savedAtOnce is how many bytes of records are made under one lock, or so many and one more counter: some 50 µs.
const savedAtOnce = 4 << 10

// debtsAtOnce is how many debts a record has at most.
const debtsAtOnce = 512

// Save calls put with a record of every counter that is not as good as new, and of the
// debts that have been charged, for a [Loader]. put must not keep the record. Decisions go
// on meanwhile: a shard is locked for records of a few of its counters, so that each
// counter is saved as of one moment, but not all as of the same. It returns the number of
// counters.
func (s *Store) Save(put func(record []byte)) (counters int) {
	r := newRecords()
	now := s.now()
	s.table.Walk(func(e *table.Entry[value]) bool {
		if e.Value.fresh(e.Policy.Limit, now) {
			return false
		}
		counters++
		r.add(e)
		return r.made.Len() >= savedAtOnce
	}, func() bool {
		r.put(put)
		now = s.now()
		return true
	})
	for _, debts := range s.debts.all() {
		for some := range slices.Chunk(debts, debtsAtOnce) {
			r.encode(&saved{Debts: some})
			r.put(put)
		}
	}
	return counters
}

// Changed reports whether there was an ask since it was last called.
func (s *Store) Changed() bool { return s.changed.Swap(false) }

// records are those of counters, made while their shard is locked.
type records struct {
	made     bytes.Buffer
	encoder  *gob.Encoder              // into made
	ends     []int                     // of each of them
	policies map[*engine.Policy]uint64 // numbers of those that have a record
}

func newRecords() *records {
	r := &records{policies: map[*engine.Policy]uint64{}}
	r.encoder = gob.NewEncoder(&r.made)
	return r
}

// add makes the record of a counter.
func (r *records) add(e *table.Entry[value]) {
	number, known := r.policies[e.Policy]
	one := saved{Number: number, Key: e.Key(), Slots: e.Value.slots}
	if !known {
		one.Number, one.Policy = uint64(len(r.policies)), saveOf(e.Policy)
		r.policies[e.Policy] = one.Number
	}
	if one.Slots == nil {
		one.Counter = live(e.Value.counter)
	}
	r.encode(&one)
}

func (r *records) encode(one *saved) {
	_ = r.encoder.Encode(one) // into memory: no error
	r.ends = append(r.ends, r.made.Len())
}

// put passes on what was made.
func (r *records) put(put func([]byte)) {
	from := 0
	for _, end := range r.ends {
		put(r.made.Bytes()[from:end])
		from = end
	}
	r.made.Reset()
	r.ends = r.ends[:0]
}

// Loader puts saved counters into a store. If its rule is gone or has changed its shape, a
// counter is kept like any other until it is as good as new.
type Loader struct {
	store    *Store
	now      limit.Micros
	policies map[uint64]*engine.Policy
	read     bytes.Buffer
	decoder  *gob.Decoder // of what is read

	Loaded int // counters
	Fresh  int // left out: as good as new by now
	NoRoom int // left out: the store is smaller than it was
}

// Loader makes one.
func (s *Store) Loader() *Loader {
	l := &Loader{store: s, now: s.now(), policies: map[uint64]*engine.Policy{}}
	l.decoder = gob.NewDecoder(&l.read)
	return l
}

// Put loads a record. A counter that the store has already is left as it is. The error
// names what is wrong with a record, of which nothing is loaded.
func (l *Loader) Put(record []byte) error {
	var one saved
	l.read.Write(record)
	if err := l.decoder.Decode(&one); err != nil {
		return err
	}
	return l.load(&one)
}

func (l *Loader) load(one *saved) (err error) {
	for _, d := range one.Debts {
		l.store.debts.load(l.now, d)
	}
	if one.Policy != nil {
		if l.policies[one.Number], err = one.Policy.policy(); err != nil {
			return err
		}
	}
	p, v := l.policies[one.Number], value{slots: one.Slots}
	switch {
	case one.Counter == nil && one.Slots == nil: // debts, or of a later release
		return nil
	case p == nil:
		return fmt.Errorf("a record has a counter of policy %d, which is not there", one.Number)
	case one.Slots != nil:
		err = checkSlots(one.Slots, p.Limit)
	default:
		v.counter = *one.Counter
		err = check(&v.counter, p.Limit)
	}
	if err == nil {
		l.add(p, one.Key, v)
	}
	return err
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
