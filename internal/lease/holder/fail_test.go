package holder

import (
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// naive is an account while the granter does not answer, as one would count it by hand.
type naive struct {
	terms       lease.Terms
	left, reset int64
	denied      int64 // the need that was denied; 0: none was
	rejected    bool
	lease       int64 // units on lease until leaseEnds
	leaseEnds   lease.Millis
	owed        int64
	used        map[lease.Millis]int64 // of the share, by the end of its window
}

func (n *naive) fail(now lease.Millis, f lease.Failure, cost int64) (admitted, denied bool, unowed int64) {
	missing := cost
	if now < n.leaseEnds {
		missing -= n.lease
	}
	if now < lease.Millis(n.reset) && (n.denied > 0 && missing >= n.denied || n.rejected && missing > max(0, n.left-n.owed)) {
		return false, true, 0
	}
	switch f.By {
	case lease.FailureDeny:
		return false, false, 0
	case lease.FailureLocal:
		if n.used[f.Ends]+cost > f.Share {
			return false, false, 0
		}
		n.used[f.Ends] += cost
	}
	owed := n.owed
	for range cost { // unit by unit
		if n.owed < n.terms.Capacity {
			n.owed++
		}
	}
	return true, false, cost - (n.owed - owed)
}

// Decisions without the granter, against an account that is counted by hand: requests,
// peeks, and requests that another rule rejects.
func TestFailAgainstTwin(t *testing.T) {
	for seed := range uint64(3000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		spec := limit.Spec{Algorithm: limit.Algorithm(rnd.IntN(4)), Count: 1 + rnd.Int64N(30), Period: limit.Second}
		terms := lease.NewTerms(fatal.Get(limit.New(spec))(t), lease.Consistency(rnd.IntN(3)), 0, 0, 0)
		n := naive{terms: terms, left: rnd.Int64N(20), reset: rnd.Int64N(5000), denied: max(0, rnd.Int64N(12)-6),
			rejected: rnd.IntN(2) == 0, lease: rnd.Int64N(6), leaseEnds: lease.Millis(rnd.Int64N(4000)), used: map[lease.Millis]int64{}}
		s := State{Left: n.left, Reset: lease.Millis(n.reset), Least: n.denied, Rejected: n.rejected}
		s.Leases[rnd.IntN(2)] = Lease{Units: n.lease, Expiry: n.leaseEnds}
		by, live, expected := lease.OnFailure(rnd.IntN(3)), rnd.IntN(4), rnd.Int64N(5)
		if by == lease.FailureLocal && rnd.IntN(2) == 0 { // nothing is left of a lease
			n.lease, s.Leases = 0, [2]Lease{}
		}
		for now, wall := lease.Millis(1), limit.Micros(rnd.Int64N(9_000_000)); now < 6000; {
			f := by.Among(live, expected, spec, now, wall)
			cost := 1 + rnd.Int64N(4)
			if before := s; rnd.IntN(4) == 0 {
				as := n
				as.used = map[lease.Millis]int64{f.Ends: n.used[f.Ends]}
				admitted, denied, _ := as.fail(now, f, 1)
				if d := s.FailPeek(&terms, now, f); d.Admitted != admitted || d.Denied != denied || !denied && d.By != by || d.Unowed != 0 || s != before {
					t.Fatalf("seed %d at %d: peek %+v, want admitted %v, denied %v", seed, now, d, admitted, denied)
				}
			} else {
				admitted, denied, unowed := n.fail(now, f, cost)
				d := s.Fail(&terms, now, f, cost)
				if d.Admitted != admitted || d.Denied != denied || !denied && d.By != by || d.Unowed != unowed || s.Overdrawn != n.owed {
					t.Fatalf("seed %d at %d: cost %d: %+v, owed %d; want admitted %v, denied %v, unowed %d, owed %d", seed, now, cost, d, s.Overdrawn, admitted, denied, unowed, n.owed)
				}
				if d.RetryAfter <= 0 != (d.Admitted || !d.Denied && by == lease.FailureDeny) {
					t.Fatalf("seed %d at %d: %+v: a rejected request gets a time to come back", seed, now, d)
				}
				if admitted && rnd.IntN(5) == 0 { // another rule rejects it
					s.Refund(&terms, TakenBy(&d, cost))
					n.owed -= cost - unowed
					n.used[f.Ends] -= cost
				}
			}
			step := rnd.Int64N(300)
			now, wall = now+lease.Millis(step), wall+limit.Micros(step)*limit.Millisecond
		}
	}
}

// A share lasts until its window ends. Where the calendar is not known, that is the end that the last reply stated or, if
// there was none, a guess.
func TestShareOfACalendar(t *testing.T) {
	const now, day = lease.Millis(1000), lease.Millis(limit.Day / limit.Millisecond)
	f := lease.Failure{By: lease.FailureLocal, Share: 5, Ends: now + 20*day}
	guess := lease.Failure{By: lease.FailureLocal, Share: 5, Ends: now + 30*day, Guessed: true}
	terms := termsOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 10, Period: 30 * limit.Day}, lease.Leased)
	for _, c := range []struct {
		name    string
		failure lease.Failure
		reset   lease.Millis // that the last reply stated
		ends    lease.Millis
	}{
		{"a guess, and no reply", guess, 0, now + 30*day}, {"a guess, and a reply that is over", guess, now, now + 30*day},
		{"a guess, and a reply", guess, now + 3*day, now + 3*day}, {"known, and a reply", f, now + 3*day, now + 20*day},
	} {
		a := State{Reset: c.reset}
		if d := a.Fail(terms, now, c.failure, 5); !d.Admitted {
			t.Errorf("%s: %+v, want the share", c.name, d)
		}
		if d := a.Fail(terms, now, c.failure, 1); d.Admitted || d.RetryAfter != c.ends-now {
			t.Errorf("%s: %+v, want a rejection for %d ms", c.name, d, c.ends-now)
		}
		if d := a.Fail(terms, c.ends-1, c.failure, 1); d.Admitted {
			t.Errorf("%s: %+v before the share ends", c.name, d)
		}
	}
}
