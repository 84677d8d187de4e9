package holder

import (
	"math/rand/v2"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
)

// A breaker against one that looks through the whole past: it is open while three calls
// have failed since the last answer, or one had no reply in time where that is enough,
// without those that were sent before a call that was answered by then.
func TestBreakerAgainstTwin(t *testing.T) {
	type outcome struct {
		call               uint64
		answered, timedOut bool
	}
	open := func(past []outcome) bool {
		failures, newest := 0, uint64(0)
		for _, o := range past {
			switch {
			case o.answered:
				failures, newest = 0, max(newest, o.call)
			case o.call < newest:
			case o.timedOut:
				failures += 3
			default:
				failures++
			}
		}
		return failures >= 3
	}
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		var b Breaker
		var past []outcome
		for now := lease.Millis(1); now < 60; now++ {
			o := outcome{call: uint64(now) + rnd.Uint64N(8), answered: rnd.IntN(4) == 0, timedOut: rnd.IntN(8) == 0}
			was, at := b.Open, b.ProbeAt
			past = append(past, o)
			opened := false
			switch {
			case o.answered:
				b.Answered(o.call)
			case o.timedOut:
				opened = b.TimedOut(now, o.call, 10)
			default:
				opened = b.Failed(now, o.call, 10)
			}
			if want := open(past); b.Open != want || opened != (want && !was) {
				t.Fatalf("seed %d at %d: open %v, opened %v, want open %v; %+v", seed, now, b.Open, opened, want, past)
			}
			if b.Open && (opened && b.ProbeAt != now+10 || !opened && b.ProbeAt != at) {
				t.Fatalf("seed %d at %d: the next probe is at %d, was %d", seed, now, b.ProbeAt, at)
			}
			if due := b.ProbeDue(now); due != (b.Open && now >= b.ProbeAt) {
				t.Fatalf("seed %d at %d: a probe is due: %v", seed, now, due)
			} else if due {
				b.Probed(now, 10)
			}
		}
	}
}

// Whatever a holder asks for, after an answer that decides nothing it waits for a lease
// interval, and twice as long with each failure, up to a second. Whoever would have to
// wait for an answer does not, and after two failures not for the next ask either.
func TestBackoff(t *testing.T) {
	for _, c := range []lease.Consistency{lease.Leased, lease.Exact, lease.Optimistic} {
		s := newStory(t, perMinute, c)
		s.terms.Overdraft = 0
		now := lease.Millis(1000)
		for i, pause := range []lease.Millis{100, 200, 400, 800, 1000, 1000, 1000, 1000, 1000, 1000} {
			if i < 2 {
				s.take(now, 1, Wait, NoAsk)
				s.ask(now, 1, 1, NoAsk)
			} else {
				s.take(now, 1, Unanswered, TopUp)
				s.want, s.sent = s.account.Ask(&s.terms, now, 0, 0, TopUp), now
			}
			if i > 0 {
				s.take(now+1, 1, Unanswered, NoAsk) // one ask is out
			}
			s.reply(now+4, lease.Grant{Status: lease.Unavailable})
			s.take(now+4+pause-1, 1, Unanswered, NoAsk)
			if _, some := s.account.Report(&s.terms, now+4+pause-1); some {
				t.Errorf("%d: reports while asks fail", c)
			}
			now += 4 + pause
		}
		s.take(now, 1, Unanswered, TopUp)
		s.want, s.sent = s.account.Ask(&s.terms, now, 0, 0, TopUp), now
		s.reply(now+4, lease.Grant{Status: lease.OK, Remaining: 500, Reset: 1000, TTL: 1000})
		if s.account.Back != (Backoff{}) {
			t.Errorf("%d: an answer that decides ends it: %+v", c, s.account.Back)
		}
		s.take(now+5, 1, Wait, NoAsk)
	}
}
