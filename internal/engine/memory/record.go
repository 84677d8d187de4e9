package memory

import (
	"encoding/binary"
	"errors"

	"github.com/weirlimit/weir/internal/calendar"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/limit"
)

// The records in which a store saves its counters. Each begins with its kind. Numbers are varints, signed ones zigzag.
// Texts and lists stand behind their length; a list has numbers of fixed size. Data behind the fields that are read
// here is for a later release, and so are unknown kinds.
//
//	policy   number, rule, override, numbersOf its limit.Spec, its other fields
//	counter  policy, key, numbersOf the counter, log
//	slots    policy, key, At, holdings, statements
//	debts    0, list of debts
//
// A policy comes before the counters that it names.
const (
	kindPolicy  = 1
	kindCounter = 2
	kindSlots   = 3
	kindDebts   = 4
)

// maxNumber bounds what a number of a record may be: what package limit calculates with.
const maxNumber = 1 << 53

// numbersOfSpec and numbersOfCounter are what is written and read, in this order.
func numbersOfSpec(s *limit.Spec) []*int64 {
	return []*int64{&s.Count, (*int64)(&s.Period), &s.Burst, (*int64)(&s.MinInterval), (*int64)(&s.LeaseTTL)}
}

func numbersOfCounter(c *granter.Counter) []*int64 {
	st, b := &c.State, c.Lockout
	return []*int64{(*int64)(&st.At), &st.Level, &st.Aux, &c.Leased, (*int64)(&c.Period), (*int64)(&c.OutUntil),
		(*int64)(&b.Ends), &b.Open, &b.Before, (*int64)(&b.Period), (*int64)(&b.Earlier)}
}

func appendNumbers(b []byte, numbers []*int64) []byte {
	for _, n := range numbers {
		b = binary.AppendVarint(b, *n)
	}
	return b
}

func appendText[T string | []byte](b []byte, text T) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func appendList[T any](b []byte, list []T) []byte {
	b, _ = binary.Append(binary.AppendUvarint(b, uint64(len(list))), binary.LittleEndian, list) // numbers: no error
	return b
}

func appendPolicy(b []byte, number uint64, p *engine.Policy) []byte {
	b = appendText(binary.AppendUvarint(append(b, kindPolicy), number), p.Rule)
	s := p.Limit.Spec()
	b = appendNumbers(binary.AppendUvarint(b, p.Override), numbersOfSpec(&s))
	c := s.Calendar
	if c == nil {
		c = new(limit.Calendar) // one without a zone is none
	}
	return appendText(append(b, byte(s.Algorithm), byte(s.Align), byte(limit.Bit(s.ChargeRejected)), byte(c.Per), c.Anchor), c.Zone)
}

// appendCounter writes a counter, of a log without the entries that are over.
func appendCounter(b []byte, policy uint64, key []byte, c granter.Counter) []byte {
	if c.State.Log != nil {
		c.State.Log, c.State.Aux = c.State.Live(), 0
	}
	if c.Lockout == nil {
		c.Lockout = new(limit.Lockout)
	}
	b = appendText(binary.AppendUvarint(append(b, kindCounter), policy), key)
	return appendList(appendNumbers(b, numbersOfCounter(&c)), c.State.Log)
}

func appendSlots(b []byte, policy uint64, key []byte, s *granter.Slots) []byte {
	b = appendText(binary.AppendUvarint(append(b, kindSlots), policy), key)
	b = appendList(binary.AppendVarint(b, int64(s.Held.At)), s.Held.Held)
	return appendList(b, s.Stated)
}

func appendDebts(b []byte, all []debt) []byte { return appendList(append(b, kindDebts, 0), all) }

// fields reads those of a record. After an error they are zero.
type fields struct {
	b   []byte
	err error
}

func (f *fields) fail(what string) {
	if f.err == nil {
		f.err, f.b = errors.New("a record "+what), nil
	}
}

func (f *fields) unsigned() uint64 {
	v, n := binary.Uvarint(f.b)
	if n <= 0 {
		f.fail("ends too early")
		return 0
	}
	f.b = f.b[n:]
	return v
}

func (f *fields) octet() byte { return byte(f.unsigned()) }

// numbers reads those that to points to.
func (f *fields) numbers(to ...*int64) {
	for _, number := range to {
		v, n := binary.Varint(f.b)
		if n <= 0 || v <= -maxNumber || v >= maxNumber {
			f.fail("has a number that is out of range")
			return
		}
		*number, f.b = v, f.b[n:]
	}
}

// demand fails if numbers are not 0 or more and in range, or what else is demanded of them.
func (f *fields) demand(ok bool, what string, numbers ...int64) {
	for _, n := range numbers {
		ok = ok && n >= 0 && n < maxNumber
	}
	if !ok {
		f.fail("has " + what + " that its limit cannot have")
	}
}

// text is valid for as long as the record is.
func (f *fields) text() []byte {
	n := f.unsigned()
	if n > uint64(len(f.b)) {
		f.fail("ends too early")
		return nil
	}
	text := f.b[:n]
	f.b = f.b[n:]
	return text
}

func list[T any](f *fields) (all []T) {
	n, size := f.unsigned(), binary.Size(*new(T))
	if n > uint64(len(f.b)/size) {
		f.fail("ends too early")
		return nil
	}
	if n > 0 {
		all = make([]T, n)
		read, _ := binary.Decode(f.b, binary.LittleEndian, all) // there are as many
		f.b = f.b[read:]
	}
	return all
}

// policy reads a policy behind its number. Its terms are not those of its rule: they are
// not needed before the next ask, which brings the rule's.
func (f *fields) policy() *engine.Policy {
	rule, override := string(f.text()), f.unsigned()
	var s limit.Spec
	f.numbers(numbersOfSpec(&s)...)
	s.Algorithm, s.Align, s.ChargeRejected = limit.Algorithm(f.octet()), limit.Align(f.octet()), f.octet() == 1
	c := limit.Calendar{Per: limit.Per(f.octet()), Anchor: f.octet(), Zone: string(f.text())}
	var err error
	if c.Zone != "" {
		s.Calendar = &c
		c.Windows, err = calendar.Windows(c)
	}
	l, wrong := limit.New(s)
	if f.err == nil {
		f.err = errors.Join(err, wrong)
	}
	if f.err != nil {
		return nil
	}
	return engine.NewPolicy(rule, override, l, lease.NewTerms(l, lease.Leased, 0, 0, 0))
}

// counter reads a counter behind its key.
func (f *fields) counter(l *limit.Limit) (c granter.Counter) {
	c.Lockout = new(limit.Lockout)
	f.numbers(numbersOfCounter(&c)...)
	b := c.Lockout
	if *b == (limit.Lockout{}) {
		c.Lockout = nil
	}
	st, log, algorithm := &c.State, list[limit.Charge](f), l.Spec().Algorithm
	f.demand(algorithm != limit.Concurrency && (st.Level >= 0 || algorithm == limit.TokenBucket), "a counter",
		int64(st.At), st.Aux, c.Leased, int64(c.Period), int64(c.OutUntil), int64(b.Ends), b.Open, b.Before, int64(b.Period), int64(b.Earlier))
	if algorithm != limit.SlidingLog {
		f.demand(len(log) == 0, "a log")
		return c
	}
	f.demand(st.Aux == 0 && (st.Level == 0 || len(log) > 0), "a log")
	over := int64(0) // sums go on from entries that were over
	if n := len(log); n > 0 {
		over = log[n-1].Sum - st.Level
	}
	last := limit.Charge{Sum: over}
	for i := range log {
		f.demand(log[i].At >= last.At && log[i].Sum >= last.Sum, "a log out of order", over, int64(log[i].At), log[i].Sum)
		last = log[i]
		log[i].Sum -= over
	}
	st.Log = log
	return c
}

// slots reads the slots of a key behind it.
func (f *fields) slots() *granter.Slots {
	s := new(granter.Slots)
	f.numbers((*int64)(&s.Held.At))
	s.Held.Held, s.Stated = list[limit.Holding](f), list[granter.Statement](f)
	f.demand(true, "a time", int64(s.Held.At))
	before := uint64(0)
	for i, h := range s.Held.Held {
		f.demand((i == 0 || h.ID > before) && h.Units <= limit.MaxSlots, "holdings", h.Units, int64(h.Until))
		before = h.ID
		s.Held.Used += h.Units
	}
	for i, t := range s.Stated {
		f.demand(i == 0 || t.Holder > before, "statements", int64(t.Until))
		before = t.Holder
	}
	return s
}
