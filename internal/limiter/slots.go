package limiter

import (
	"cmp"
	"slices"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// Slots is what a granter keeps of one key of a Concurrency limit. The zero value
// is a key of which nothing is held.
type Slots struct {
	Held limit.Slots
	// Stated is the newest statement of each holder, by ascending holder, until
	// the holding that it made has run out: an older one that arrives later is
	// ignored, since what a holder states is absolute and only its latest word is
	// true.
	Stated []Statement
}

// Statement is what is remembered of a holder's latest word.
type Statement struct {
	Holder uint64
	Seq    uint64
	Until  limit.Micros
}

// Acquire applies a holder's statement and answers how many slots it may hold in
// all: at least those that it uses and still had, up to want. A statement older
// than the holder's latest changes nothing and is Unavailable.
func (s *Slots) Acquire(p *Policy, now limit.Micros, a *Ask) lease.Grant {
	if a.Op != Hold {
		return s.request(p, now, a)
	}
	if !s.hear(p, now, a) {
		return lease.Grant{Status: lease.Unavailable}
	}
	return s.Grant(p, now, a)
}

// request takes, renews or gives back the slots of one request.
func (s *Slots) request(p *Policy, now limit.Micros, a *Ask) lease.Grant {
	s.moveTo(p, now)
	var d limit.HoldDecision
	need := int64(0)
	switch a.Op {
	case Take:
		need = a.Want.Need
		s.Held, d = p.Limit.AcquireSlot(s.Held, now, a.Holder, need)
	case Renew:
		need = 1
		s.Held, d = p.Limit.RenewSlot(s.Held, now, a.Holder)
	default:
		s.Held, _ = p.Limit.ReleaseSlot(s.Held, now, a.Holder)
		d.Remaining = max(0, p.Limit.Spec().Count-s.Held.Used)
	}
	return s.word(p, &d, need)
}

// Restate applies what a holder uses, without what it asks for. It reports
// whether its need could be granted; false, false if the statement is too old.
func (s *Slots) Restate(p *Policy, now limit.Micros, a *Ask) (fits, heard bool) {
	if !s.hear(p, now, a) {
		return false, false
	}
	var d limit.HoldDecision
	s.Held, d = p.Limit.Hold(s.Held, now, a.Holder, a.Holding, a.Holding)
	return d.Granted-a.Holding+d.Remaining >= a.Want.Need, true
}

// Grant decides on a statement that has been heard.
func (s *Slots) Grant(p *Policy, now limit.Micros, a *Ask) lease.Grant {
	using := a.Holding + a.Want.Waiting
	var d limit.HoldDecision
	s.Held, d = p.Limit.Hold(s.Held, now, a.Holder, using, max(using, a.Want.Want))
	return s.word(p, &d, a.Holding+a.Want.Need)
}

func (s *Slots) word(p *Policy, d *limit.HoldDecision, need int64) lease.Grant {
	return p.WordSlots(d, need, len(s.Held.Held) > 0)
}

// WordSlots is the grant that tells a holder the decision d when it needs so many
// slots in all, for whoever keeps [Slots] elsewhere. held says that any are held.
func (p *Policy) WordSlots(d *limit.HoldDecision, need int64, held bool) lease.Grant {
	g := lease.Grant{
		Status:    lease.OK,
		Granted:   d.Granted,
		TTL:       lease.Millis(d.TTL / limit.Millisecond),
		Limit:     p.Terms.Capacity,
		Remaining: d.Remaining,
	}
	if held {
		g.Reset = lease.Millis(p.Limit.Spec().LeaseTTL / limit.Millisecond)
	}
	if d.Granted < need {
		// Slots are released at any time, not only when they run out.
		g.Status = lease.Denied
		g.RetryAfter = max(1, lease.CeilMillis(d.RetryAfter))
		g.AskAfter = min(g.RetryAfter, p.Terms.Interval)
	}
	return g
}

// hear remembers a statement unless a later one has been heard.
func (s *Slots) hear(p *Policy, now limit.Micros, a *Ask) bool {
	s.moveTo(p, now)
	i, known := s.find(a.Holder)
	if !known {
		s.Stated = slices.Insert(s.Stated, i, Statement{Holder: a.Holder})
	}
	t := &s.Stated[i]
	if a.Seq < t.Seq {
		return false
	}
	t.Seq, t.Until = a.Seq, s.Held.At+p.Limit.Spec().LeaseTTL
	return true
}

// moveTo lets time pass: holdings run out, and statements with them. Both are on
// the clock of the holdings, which does not step back; where that moves back
// because a clock was wrong, nothing of either lasts for longer than a ttl.
func (s *Slots) moveTo(p *Policy, now limit.Micros) {
	before := s.Held.At
	s.Held = p.Limit.LapseSlots(s.Held, now)
	at := s.Held.At
	s.Stated = slices.DeleteFunc(s.Stated, func(t Statement) bool { return t.Until <= at })
	if at < before {
		for i := range s.Stated {
			s.Stated[i].Until = min(s.Stated[i].Until, at+p.Limit.Spec().LeaseTTL)
		}
	}
}

// Knows reports whether a holder's statement is remembered.
func (s *Slots) Knows(holder uint64) bool {
	_, known := s.find(holder)
	return known
}

func (s *Slots) find(holder uint64) (int, bool) {
	return slices.BinarySearchFunc(s.Stated, holder, func(t Statement, holder uint64) int {
		return cmp.Compare(t.Holder, holder)
	})
}

// Fresh reports whether the key may be forgotten: nothing is held, and no
// statement can arrive late any more.
func (s *Slots) Fresh(l *limit.Limit, now limit.Micros) bool {
	at := now
	if s.Held.At-now <= l.Spec().LeaseTTL {
		at = max(now, s.Held.At)
	}
	for _, t := range s.Stated {
		if at < t.Until {
			return false
		}
	}
	return l.FreshSlots(s.Held, now)
}

// Bytes is how much memory the slots take beside the struct.
func (s *Slots) Bytes() int { return 24 * (cap(s.Held.Held) + cap(s.Stated)) }
