package memory

import (
	"cmp"
	"errors"

	"github.com/weirlimit/weir/internal/calendar"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/limit"
)

// saved is a record in which a store saves a counter, or debts: a value in a stream of encoding/gob. Fields of a later
// release are left out.
type saved struct {
	Number  uint64       // of the policy
	Policy  *savedPolicy // with the first counter of the policy
	Key     []byte
	Counter *granter.Counter // nil: there are slots, or debts
	Slots   *granter.Slots
	Debts   []debt
}

// savedPolicy is what names the counters of a policy, and their limit.
type savedPolicy struct {
	Rule     string
	Override uint64
	Spec     limit.Spec // without the windows of the calendar
}

func saveOf(p *engine.Policy) *savedPolicy {
	s := p.Limit.WithoutBlock().Spec()
	s.Kept = 0
	if s.Calendar != nil {
		c := *s.Calendar
		s.Calendar, c.Windows = &c, nil
	}
	return &savedPolicy{p.Rule, p.Override, s}
}

// policy makes the policy. Its terms are not those of its rule: they are not needed before the next ask, which brings
// the rule's.
func (s *savedPolicy) policy() (p *engine.Policy, err error) {
	if c := s.Spec.Calendar; c != nil {
		if c.Windows, err = calendar.Windows(*c); err != nil {
			return nil, err
		}
	}
	l, err := limit.New(s.Spec)
	if err != nil {
		return nil, err
	}
	return engine.NewPolicy(s.Rule, s.Override, l, lease.NewTerms(l, lease.Leased, 0, 0, 0)), nil
}

// maxNumber bounds what a number of a record may be: what package limit calculates with.
const maxNumber = 1 << 53

// inRange reports whether all numbers are 0 or more, and below maxNumber.
func inRange(numbers ...int64) bool {
	for _, n := range numbers {
		if n < 0 || n >= maxNumber {
			return false
		}
	}
	return true
}

// impossible is the error of a record that its limit cannot have.
func impossible(what string) error {
	return errors.New("a record has " + what + " that its limit cannot have")
}

// live is a counter as it is saved: of a log without the entries that are over.
func live(c granter.Counter) *granter.Counter {
	if c.State.Log != nil {
		c.State.Log, c.State.Aux = c.State.Live(), 0
	}
	return &c
}

// check checks a counter that was read. The sums of a log then go on from 0, and no more from entries that were over.
func check(c *granter.Counter, l *limit.Limit) error {
	st, log, algorithm := &c.State, c.State.Log, l.Spec().Algorithm
	b, level := cmp.Or(c.Lockout, new(limit.Lockout)), st.Level
	if algorithm == limit.TokenBucket {
		level = max(level, -level)
	}
	switch {
	case algorithm == limit.Concurrency, !inRange(level, int64(st.At), st.Aux, c.Leased, int64(c.Period), int64(c.OutUntil),
		int64(b.Ends), b.Open, b.Before, int64(b.Period), int64(b.Earlier)):
		return impossible("a counter")
	case algorithm != limit.SlidingLog && len(log) == 0:
		return nil
	case algorithm != limit.SlidingLog, st.Aux != 0, st.Level != 0 && len(log) == 0:
		return impossible("a log")
	}
	over := int64(0)
	if n := len(log); n > 0 {
		over = log[n-1].Sum - st.Level
	}
	last := limit.Charge{Sum: over}
	for i := range log {
		if log[i].At < last.At || log[i].Sum < last.Sum || !inRange(over, int64(log[i].At), log[i].Sum) {
			return impossible("a log out of order")
		}
		last = log[i]
		log[i].Sum -= over
	}
	return nil
}

// checkSlots checks slots that were read, and counts those in use.
func checkSlots(s *granter.Slots, l *limit.Limit) error {
	ok := l.Concurrent() && inRange(int64(s.Held.At))
	s.Held.Used = 0
	before := uint64(0)
	for i, h := range s.Held.Held {
		ok = ok && (i == 0 || h.ID > before) && h.Units <= limit.MaxSlots && inRange(h.Units, int64(h.Until))
		before = h.ID
		s.Held.Used += h.Units
	}
	for i, t := range s.Stated {
		ok = ok && (i == 0 || t.Holder > before) && inRange(int64(t.Until))
		before = t.Holder
	}
	if !ok {
		return impossible("slots")
	}
	return nil
}
