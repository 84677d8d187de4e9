package holder

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/lease"
)

// book is the naive twin of an account: every lease that ever came, by what is left
// of it, with nothing forgotten and nothing clever.
type book struct {
	t      *rapid.T
	leases map[Part]int64 // by lease and expiry, Units 0
	from   map[Part]lease.Millis
	debts  int64 // units overdrawn that no reply has acknowledged, at most one limit
}

func newBook(t *rapid.T) *book {
	return &book{t: t, leases: map[Part]int64{}, from: map[Part]lease.Millis{}}
}

// leave takes units off the lease that they came with.
func (b *book) leave(now lease.Millis, p Part, spent bool) {
	if p.Units == 0 {
		return
	}
	id := Part{Lease: p.Lease, Expiry: p.Expiry}
	if b.leases[id] -= p.Units; b.leases[id] < 0 {
		b.t.Fatalf("at %d: %d units of lease %d too many", now, -b.leases[id], p.Lease)
	}
	if spent && (now >= p.Expiry || now < b.from[id]) {
		b.t.Fatalf("at %d: units spent of a lease from %d to %d", now, b.from[id], p.Expiry)
	}
}

// owe notes units that were admitted without a lease.
func (b *book) owe(t *lease.Terms, units int64) { b.debts = min(b.debts+units, t.Capacity) }

// agrees checks an account against the book and against its own invariants.
func (b *book) agrees(now lease.Millis, s *State, most int64) {
	var held int64
	for _, lot := range s.Leases {
		if lot.Units < 0 {
			b.t.Fatalf("at %d: %+v", now, s)
		}
		if !lot.Local {
			held += lot.Units
		}
	}
	var booked int64
	for _, n := range b.leases {
		booked += n
	}
	if held != booked {
		b.t.Fatalf("at %d: holds %d, was granted %d more than it spent or gave back; %+v", now, held, booked, s)
	}
	if s.Spent < 0 || s.Denied < 0 || s.WantLog2 > 32 || s.Least < 0 || s.Left < 0 {
		b.t.Fatalf("at %d: %+v", now, s)
	}
	if s.Overdrawn < b.debts || s.Overdrawn > most {
		b.t.Fatalf("at %d: reports %d of %d overdrawn, and of a limit of %d", now, s.Overdrawn, b.debts, most)
	}
}

// wander plays an account at random against the book.
func wander(t *rapid.T) {
	terms := lease.Terms{Consistency: lease.Consistency(upTo(t, 2)), Interval: 100, Timeout: 100, Capacity: 64, Overdraft: 2, Refills: upTo(t, 1) == 1, Lead: 200 * lease.Millis(upTo(t, 1))}
	terms.Pace = terms.Interval * lease.Millis(upTo(t, 1))
	var s State
	b := newBook(t)
	type out struct {
		w    lease.Want
		sent lease.Millis
	}
	var asks []out
	var taken []Taken
	now, leases := lease.Millis(1000), uint32(0)
	for range 60 {
		now += lease.Millis(upTo(t, 60))
		switch upTo(t, 7) {
		case 0, 1, 2:
			dec := s.Take(&terms, now, upTo(t, 9))
			for _, p := range dec.Taken.Parts {
				b.leave(now, p, true)
			}
			b.owe(&terms, dec.Taken.Overdrawn)
			if dec.Verdict == Admit {
				taken = append(taken, dec.Taken)
			}
		case 3:
			waiting := upTo(t, 12)
			before := s.Leases
			w := s.Ask(&terms, now, min(waiting, 1), waiting, Asks(upTo(t, 2)))
			if w.Want < w.Waiting || w.Want > max(w.Waiting, 1<<32) {
				t.Fatalf("wants %+v", w)
			}
			b.collected(now, before, s.Leases, w)
			asks = append(asks, out{w, now})
		case 4:
			if len(asks) > 0 { // replies overtake each other
				i := int(upTo(t, int64(len(asks)-1)))
				o := asks[i]
				asks = append(asks[:i], asks[i+1:]...)
				leases++
				b.reply(&s, &terms, now, o.sent, o.w, leases)
			}
		case 5:
			if len(taken) > 0 {
				i := int(upTo(t, int64(len(taken)-1)))
				b.undo(&terms, now, &s, taken[i])
				taken = append(taken[:i], taken[i+1:]...)
			}
		case 6:
			before := s.Leases
			w, _ := s.Report(&terms, now)
			b.collected(now, before, s.Leases, w)
		case 7:
			if upTo(t, 3) > 0 {
				cost := upTo(t, 30)
				s.Owe(&terms, cost)
				b.owe(&terms, cost)
				break
			}
			if s.Fail(&terms, now, lease.Failure{By: lease.FailureLocal, Share: 5, Ends: now/1000*1000 + 1000}, 1).Admitted {
				b.owe(&terms, 1)
			}
			b.lost(&s)
		}
		b.agrees(now, &s, terms.Capacity)
		if s.Idle(&terms, now) && (s.Overdrawn > 0 || s.Available(now) > 0) {
			t.Fatalf("at %d idle: %+v", now, s)
		}
	}
}

// collected checks what a want gives back.
func (b *book) collected(now lease.Millis, before, after [2]Lease, w lease.Want) {
	var units int64
	for i, lot := range before {
		if n := lot.Units - after[i].Units; n > 0 {
			b.leave(now, Part{Units: n, Lease: lot.Lease, Expiry: lot.Expiry}, false)
			units += n
			if lot.Lease != w.Lease || now < lot.Expiry && (w.Need == 0 || now < lot.From) {
				b.t.Fatalf("at %d gives back %+v of %+v", now, w, lot)
			}
		}
	}
	if units != w.Unused {
		b.t.Fatalf("at %d reports %d back, %d left", now, w.Unused, units)
	}
}

// reply answers an ask with anything that a granter may answer.
func (b *book) reply(s *State, terms *lease.Terms, now, sent lease.Millis, w lease.Want, id uint32) {
	t := b.t
	g := lease.Grant{Status: lease.OK, Lease: id, TTL: lease.Millis(upTo(t, 400)), Remaining: upTo(t, 3), Reset: lease.Millis(upTo(t, 2000))}
	switch upTo(t, 4) {
	case 0:
		g.Status, g.AskAfter = lease.Denied, 1+lease.Millis(upTo(t, 200))
	case 1:
		g.Status = lease.Unavailable
	default:
		g.Granted = upTo(t, w.Want)
	}
	spare := max(0, g.Granted-w.Waiting)
	if upTo(t, 3) == 0 { // those who waited have given up
		spare = g.Granted
	}
	if w.Next && upTo(t, 1) == 1 && g.Granted > 0 {
		g.StartsIn = 1 + lease.Millis(upTo(t, 200))
	}
	key := Part{Lease: id, Expiry: sent + g.TTL}
	if spare > 0 {
		b.leases[key] += spare
		if g.StartsIn > 0 {
			b.from[key] = now + g.StartsIn
		}
	}
	if g.Status != lease.Unavailable {
		b.debts = max(0, b.debts-w.Overdrawn)
	}
	back := s.Apply(terms, now, sent, w, g, spare, 90+lease.Millis(upTo(t, 20)))
	b.leave(now, back, false)
}

// undo puts back what a request took.
func (b *book) undo(terms *lease.Terms, now lease.Millis, s *State, t Taken) {
	for _, p := range t.Parts {
		if p.Units > 0 {
			b.leases[Part{Lease: p.Lease, Expiry: p.Expiry}] += p.Units
		}
	}
	b.debts = max(0, b.debts-t.Overdrawn)
	for _, p := range s.Untake(terms, t) {
		b.leave(now, p, false)
	}
}

// lost forgets the units of a lot that a local share has overwritten: they are
// wasted, as nobody answers.
func (b *book) lost(s *State) {
	held := map[Part]int64{}
	for _, lot := range s.Leases {
		if !lot.Local {
			held[Part{Lease: lot.Lease, Expiry: lot.Expiry}] += lot.Units
		}
	}
	for id := range b.leases {
		b.leases[id] = held[id]
	}
}

func TestAccountKeepsItsBooks(t *testing.T) { rapid.Check(t, wander) }

func FuzzAccount(f *testing.F) { f.Fuzz(rapid.MakeFuzz(wander)) }

// upTo is a number from 0 to n.
func upTo(t *rapid.T, n int64) int64 { return rapid.Int64Range(0, max(n, 0)).Draw(t, "n") }
