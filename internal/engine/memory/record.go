package memory

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/weirlimit/weir/internal/calendar"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/limit"
)

// The records in which a store saves its counters. Each begins with its kind. Numbers are
// varints, signed ones zigzag. Data behind the fields that are read here is for a later
// release, and so are unknown kinds.
//
//	policy   number, rule, override, the fields of limit.Spec; those of its calendar, if it has one
//	counter  policy, key, At, Level, Aux, entries of the log (At from the one before, units), Leased, Period, OutUntil
//	slots    policy, key, At, holdings (ID, units, Until), statements (Holder, Seq, Until)
//
//	debts    0, how many, of each the hash of its counter and its name, fixed 64-bit
//
// Times of a counter are from its At. A policy comes before the counters that it names.
const (
	kindPolicy  = 1
	kindCounter = 2
	kindSlots   = 3
	kindDebts   = 4
)

// maxNumber bounds what a number of a record may be: what package limit calculates with.
const maxNumber = 1 << 53

func appendPolicy(b []byte, number uint64, p *engine.Policy) []byte {
	b = binary.AppendUvarint(append(b, kindPolicy), number)
	b = appendText(b, p.Rule)
	b = binary.AppendUvarint(b, p.Override)
	s := p.Limit.Spec()
	b = append(b, byte(s.Algorithm), byte(s.Align), byte(limit.Bit(s.ChargeRejected)))
	for _, n := range []int64{s.Count, int64(s.Period), s.Burst, int64(s.MinInterval), int64(s.LeaseTTL)} {
		b = binary.AppendVarint(b, n)
	}
	if c := s.Calendar; c != nil {
		b = appendText(append(b, byte(c.Per), c.Anchor), c.Zone)
	}
	return b
}

// appendCounter writes a counter, of a log without the entries that are over.
func appendCounter(b []byte, policy uint64, key []byte, c granter.Counter) []byte {
	b = appendText(binary.AppendUvarint(append(b, kindCounter), policy), key)
	st := &c.State
	if st.Log != nil {
		st.Log, st.Aux = st.Live(), 0
	}
	b = binary.AppendVarint(b, int64(st.At))
	b = binary.AppendVarint(b, st.Level)
	b = binary.AppendVarint(b, st.Aux)
	b = binary.AppendUvarint(b, uint64(len(st.Log)))
	at, sum := st.At, int64(0)
	if n := len(st.Log); n > 0 { // sums go on from entries that were over
		sum = st.Log[n-1].Sum - st.Level
	}
	for _, e := range st.Log {
		b = binary.AppendVarint(b, int64(e.At-at))
		b = binary.AppendVarint(b, e.Sum-sum)
		at, sum = e.At, e.Sum
	}
	b = binary.AppendVarint(b, c.Leased)
	b = appendSince(b, c.Period, st.At)
	return appendSince(b, c.OutUntil, st.At)
}

func appendSlots(b []byte, policy uint64, key []byte, s *granter.Slots) []byte {
	b = appendText(binary.AppendUvarint(append(b, kindSlots), policy), key)
	at := s.Held.At
	b = binary.AppendVarint(b, int64(at))
	b = binary.AppendUvarint(b, uint64(len(s.Held.Held)))
	for _, h := range s.Held.Held {
		b = binary.LittleEndian.AppendUint64(b, h.ID)
		b = binary.AppendVarint(b, h.Units)
		b = binary.AppendVarint(b, int64(h.Until-at))
	}
	b = binary.AppendUvarint(b, uint64(len(s.Stated)))
	for _, t := range s.Stated {
		b = binary.LittleEndian.AppendUint64(b, t.Holder)
		b = binary.AppendUvarint(b, t.Seq)
		b = binary.AppendVarint(b, int64(t.Until-at))
	}
	return b
}

func appendDebts(b []byte, all []debt) []byte {
	b = binary.AppendUvarint(append(b, kindDebts, 0), uint64(len(all)))
	for _, d := range all {
		b = binary.LittleEndian.AppendUint64(b, d.counter)
		b = binary.LittleEndian.AppendUint64(b, d.name)
	}
	return b
}

func appendText[T string | []byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// appendSince writes a time that may be 0, for never.
func appendSince(b []byte, t, since limit.Micros) []byte {
	if t == 0 {
		return binary.AppendVarint(b, -int64(since))
	}
	return binary.AppendVarint(b, int64(t-since))
}

// fields reads those of a record. After an error they are zero.
type fields struct {
	b   []byte
	err error
}

var errShort = errors.New("a record ends too early")

func (f *fields) fail(err error) {
	if f.err == nil {
		f.err, f.b = err, nil
	}
}

func (f *fields) octet() byte {
	if len(f.b) == 0 {
		f.fail(errShort)
		return 0
	}
	v := f.b[0]
	f.b = f.b[1:]
	return v
}

func (f *fields) unsigned() uint64 {
	v, n := binary.Uvarint(f.b)
	if n <= 0 {
		f.fail(errShort)
		return 0
	}
	f.b = f.b[n:]
	return v
}

// signed reads a number of which the magnitude is less than maxNumber.
func (f *fields) signed() int64 {
	v, n := binary.Varint(f.b)
	switch {
	case n <= 0:
		f.fail(errShort)
		return 0
	case v <= -maxNumber || v >= maxNumber:
		f.fail(fmt.Errorf("a record has the number %d, which is out of range", v))
		return 0
	}
	f.b = f.b[n:]
	return v
}

// positive reads such a number that is not less than 0.
func (f *fields) positive() int64 {
	v := f.signed()
	if v < 0 {
		f.fail(fmt.Errorf("a record has the negative number %d", v))
		return 0
	}
	return v
}

// since reads a time that counts from another one.
func (f *fields) since(at limit.Micros) limit.Micros {
	t := at + limit.Micros(f.signed())
	if t < 0 || t >= maxNumber {
		f.fail(fmt.Errorf("a record has the time %d", t))
		return 0
	}
	return t
}

func (f *fields) fixed64() uint64 {
	if len(f.b) < 8 {
		f.fail(errShort)
		return 0
	}
	v := binary.LittleEndian.Uint64(f.b)
	f.b = f.b[8:]
	return v
}

// text is valid for as long as the record is.
func (f *fields) text() []byte {
	n := f.unsigned()
	if n > uint64(len(f.b)) {
		f.fail(errShort)
		return nil
	}
	v := f.b[:n]
	f.b = f.b[n:]
	return v
}

// count reads how many parts follow, of at least so many bytes each.
func (f *fields) count(least int) int {
	n := f.unsigned()
	if n > uint64(len(f.b)/least) {
		f.fail(errShort)
		return 0
	}
	return int(n)
}

// policy reads a policy behind its number. Its terms are not those of its rule: they are
// not needed before the next ask, which brings the rule's.
func (f *fields) policy() *engine.Policy {
	rule, override := string(f.text()), f.unsigned()
	s := limit.Spec{Algorithm: limit.Algorithm(f.octet()), Align: limit.Align(f.octet()), ChargeRejected: f.octet() == 1}
	s.Count, s.Period, s.Burst = f.positive(), limit.Micros(f.positive()), f.positive()
	s.MinInterval, s.LeaseTTL = limit.Micros(f.positive()), limit.Micros(f.positive())
	if len(f.b) > 0 {
		s.Calendar = f.calendar()
	}
	if f.err != nil {
		return nil
	}
	l, err := limit.New(s)
	if err != nil {
		f.fail(err)
		return nil
	}
	return engine.NewPolicy(rule, override, l, lease.NewTerms(l, lease.Leased, 0, 0, 0))
}

// calendar reads that of a policy.
func (f *fields) calendar() *limit.Calendar {
	c := limit.Calendar{Per: limit.Per(f.octet()), Anchor: f.octet(), Zone: string(f.text())}
	var err error
	if c.Windows, err = calendar.Windows(c); err != nil {
		f.fail(err)
	}
	return &c
}

// counter reads a counter behind its key.
func (f *fields) counter(l *limit.Limit) (c granter.Counter) {
	st := &c.State
	st.At, st.Level, st.Aux = limit.Micros(f.positive()), f.signed(), f.positive()
	if n := f.count(2); n > 0 {
		st.Log = make([]limit.Charge, 0, n)
		at, sum := st.At, int64(0)
		for i := range n {
			next := f.since(at)
			sum += f.positive()
			if i > 0 && next < at || sum >= maxNumber {
				f.fail(errors.New("a record has a log that is out of order"))
			}
			at = next
			st.Log = append(st.Log, limit.Charge{At: at, Sum: sum})
		}
		if sum != st.Level {
			f.fail(errors.New("a record has a log with another sum than its level"))
		}
	}
	switch algorithm := l.Spec().Algorithm; {
	case algorithm == limit.Concurrency,
		algorithm != limit.TokenBucket && st.Level < 0,
		algorithm == limit.SlidingLog && (st.Aux != 0 || len(st.Log) == 0 && st.Level != 0),
		algorithm != limit.SlidingLog && len(st.Log) > 0:
		f.fail(errors.New("a record has a counter that its limit cannot have"))
	}
	c.Leased, c.Period, c.OutUntil = f.positive(), f.since(st.At), f.since(st.At)
	return c
}

// slots reads the slots of a key behind it.
func (f *fields) slots() *granter.Slots {
	s := new(granter.Slots)
	s.Held.At = limit.Micros(f.positive())
	before := uint64(0)
	for i := range f.count(10) {
		h := limit.Holding{ID: f.fixed64(), Units: f.positive(), Until: f.since(s.Held.At)}
		if i > 0 && h.ID <= before || h.Units > limit.MaxSlots {
			f.fail(errors.New("a record has holdings that are out of order"))
		}
		before = h.ID
		s.Held.Used += h.Units
		s.Held.Held = append(s.Held.Held, h)
	}
	before = 0
	for i := range f.count(10) {
		t := granter.Statement{Holder: f.fixed64(), Seq: f.unsigned(), Until: f.since(s.Held.At)}
		if i > 0 && t.Holder <= before {
			f.fail(errors.New("a record has statements that are out of order"))
		}
		before = t.Holder
		s.Stated = append(s.Stated, t)
	}
	return s
}
