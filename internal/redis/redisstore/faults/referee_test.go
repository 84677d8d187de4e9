package faults

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// replicationLag is how much of what a master acknowledged last its replicas may
// not have seen, on a crowded machine.
const replicationLag = time.Second

// loss is an event in which counters lost what they had counted.
type loss struct {
	of func(*counter) bool
	// at is when no grant of before was on its way any more and none of after had
	// been made: the node was dead from a while before at until a while after.
	at time.Duration
	// failover is true if a replica took over, which lacks no more than what was
	// acknowledged within replicationLag before the time of the fault.
	failover bool
	fault    time.Duration
}

// hang is a span for which nodes stood still, with asks in their sockets that they
// applied afterwards, though these had been answered Unavailable.
type hang struct {
	of          func(*counter) bool
	from, until time.Duration
}

// straggling is how long after its caller left an ask may still be applied, on a
// crowded machine.
const straggling = time.Second

// latest is until when an ask for c may have been applied that was answered
// Unavailable at done.
func latest(c *counter, done time.Duration, hangs []hang) time.Duration {
	for _, h := range hangs {
		if h.of(c) && h.from <= done && done <= h.until+straggling {
			return max(done, h.until) + straggling
		}
	}
	return done + straggling
}

// referee checks what was admitted against what a limit may admit and must.
//
// A counter admits at most L in its period, and, for each loss that hits it, again
// what was lost: after a restart at most L, after a failover at most what was
// granted and not yet replicated. A counter that denies is spent: L units were
// granted, or charged to asks that were sent and never answered, since it was last
// whole. The two together leave no room: neither too much nor too little.
type referee struct {
	begin  time.Time // of the load
	losses []loss
	hangs  []hang
	// unanswered is at most how many asks, of all keys, may have been applied of those
	// that were asked and answered Unavailable within a span.
	unanswered func(span) int64
	missing    int64 // units of the limits of all keys that were denied without being granted
	faults     []string
}

// judge returns what is wrong, if anything.
func (r *referee) judge(answers []answer) []string {
	history := map[*counter][]answer{}
	for _, a := range answers {
		history[a.of] = append(history[a.of], a)
		if a.status < lease.OK || a.status > lease.Unavailable || a.status == lease.OK != (a.granted == 1) || a.granted > 1 {
			r.fault(a.of, "answered with status %d and %d units to an ask for one", a.status, a.granted)
		}
	}
	for c, h := range history {
		if c.policy.Rule == perSecond {
			r.windows(c, h)
		} else {
			r.lives(c, h)
		}
	}
	if all := r.unanswered(span{0, forever}); r.missing > all {
		r.faults = append(r.faults, fmt.Sprintf("%d units were neither granted nor left, and no more than %d can have been charged to asks that were not answered", r.missing, all))
	}
	return r.faults
}

func (r *referee) fault(c *counter, format string, args ...any) {
	r.faults = append(r.faults, c.String()+": "+fmt.Sprintf(format, args...))
}

// tally is what happened to a counter in some span.
type tally struct {
	granted, denied, unavailable int64
	out                          span // in which all that was unavailable was asked and answered
}

func (t *tally) add(a *answer) {
	t.granted += a.granted
	switch a.status {
	case lease.Denied:
		t.denied++
	case lease.Unavailable:
		if t.unavailable++; t.unavailable == 1 {
			t.out = span{a.sent, a.done}
		}
		t.out = span{min(t.out.from, a.sent), max(t.out.until, a.done)}
	}
}

func (t tally) String() string {
	return fmt.Sprintf("%d granted, %d denied, %d unavailable", t.granted, t.denied, t.unavailable)
}

// charged is how many units may have been charged to asks that were answered
// Unavailable.
func (r *referee) charged(t *tally) int64 {
	if t.unavailable == 0 {
		return 0
	}
	return min(t.unavailable, r.unanswered(t.out))
}

// lives judges a counter whose period outlasts the test: each of its lives begins
// with a loss of everything; in a failover it lives on.
func (r *referee) lives(c *counter, h []answer) {
	most := c.limit()
	if a := c.policy.Limit.Spec().Algorithm; a != limit.FixedWindow && a != limit.SlidingLog {
		most++ // a unit may come back while the test runs
	}
	var from time.Duration
	for _, l := range r.losses {
		switch {
		case !l.of(c):
		case l.failover:
			most += unreplicated(h, l)
		default:
			r.life(c, h, from, l.at, most)
			from = l.at
		}
	}
	r.life(c, h, from, 1<<62, most)
}

// life judges what was answered from one time until another.
func (r *referee) life(c *counter, h []answer, from, until time.Duration, most int64) {
	var sum tally
	for i := range h {
		if a := &h[i]; from <= a.done && a.done < until {
			sum.add(a)
		}
	}
	if sum.granted > most {
		r.fault(c, "granted %d from %v on, at most %d", sum.granted, from, most)
	}
	if sum.denied == 0 {
		return
	}
	missing, charged := max(0, c.limit()-sum.granted), r.charged(&sum)
	if missing > charged {
		r.fault(c, "denied after %d of %d from %v on, and no more than %d that may have been charged", sum.granted, c.limit(), from, charged)
	}
	r.missing += missing
}

// unreplicated is at most what a failover loses of a counter.
func unreplicated(h []answer, l loss) (units int64) {
	for _, a := range h {
		if a.done >= l.fault-replicationLag && a.sent <= l.fault {
			units += a.granted
		}
	}
	return units
}

// windows judges a counter of windows of a second. A grant names the window that it
// was charged to. A denial is of a known window where the call was over within it.
// No loss admits more, since a node is away for longer than a window.
func (r *referee) windows(c *counter, h []answer) {
	sums := map[uint32]*tally{}
	sum := func(window uint32) *tally {
		if sums[window] == nil {
			sums[window] = new(tally)
		}
		return sums[window]
	}
	for i := range h {
		a := &h[i]
		first, last := r.window(c, a.sent), r.window(c, a.done)
		switch {
		case a.granted > 0:
			sum(a.lease).granted += a.granted
			if got := a.lease; got-first > last-first {
				r.fault(c, "granted in window %d while it was %d to %d", got, first, last)
			}
		case a.status == lease.Unavailable:
			until := r.window(c, latest(c, a.done, r.hangs))
			for w := first; w-first <= until-first; w += uint32(c.policy.Limit.Spec().Period / limit.Millisecond) {
				sum(w).add(a)
			}
		case first == last:
			sum(first).denied++
		}
	}
	for w, s := range sums {
		if s.granted > c.limit() {
			r.fault(c, "granted %d in window %d, at most %d", s.granted, w, c.limit())
		}
		if charged := r.charged(s); s.denied > 0 && s.granted+charged < c.limit() {
			r.fault(c, "denied in window %d after %d of %d, and no more than %d that may have been charged", w, s.granted, c.limit(), charged)
		}
	}
}

// window is the id of the window at a time of the load: Redis reads the same
// machine's clock.
func (r *referee) window(c *counter, at time.Duration) uint32 {
	period := c.policy.Limit.Spec().Period
	now := limit.Micros(r.begin.Add(at).UnixMicro())
	return c.policy.Limit.PeriodID(now / period * period)
}

// TestReferee plants what the faults could do to a counter, each of which has to
// be found.
func TestReferee(t *testing.T) {
	log := counters("referee", 1, 1)[4]
	if log.policy.Rule != "log" {
		t.Fatal(log)
	}
	dead := loss{of: func(*counter) bool { return true }, at: 5 * time.Second}
	failover := loss{of: dead.of, at: 5 * time.Second, failover: true, fault: 4 * time.Second}
	L := int(log.limit())
	for _, row := range []struct {
		name                    string
		granted                 [2]int // before and after 5 s
		unavailable, unanswered int
		denied                  int
		losses                  []loss
		wrong                   bool
	}{
		{"spent, then denied", [2]int{L, 0}, 0, 0, 9, nil, false},
		{"one too many", [2]int{L, 1}, 0, 0, 0, nil, true},
		{"one too few", [2]int{L - 1, 0}, 0, 0, 1, nil, true},
		{"one may have been charged", [2]int{L - 1, 0}, 1, 1, 1, nil, false},
		{"one was not even sent", [2]int{L - 1, 0}, 1, 0, 1, nil, true},
		{"begins anew", [2]int{L, L}, 0, 0, 9, []loss{dead}, false},
		{"begins anew with one too many", [2]int{L, L + 1}, 0, 0, 9, []loss{dead}, true},
		{"does not begin anew", [2]int{L, 0}, 0, 0, 9, []loss{dead}, true},
		{"begins anew with a part", [2]int{L, 13}, 94, 26, 9, []loss{dead}, true},
		{"goes on", [2]int{L - 7, 7}, 0, 0, 9, []loss{failover}, false},
		{"loses what was old in a failover", [2]int{L, 1}, 0, 0, 9, []loss{failover}, true},
	} {
		var answers []answer
		at := func(n int, when time.Duration, status lease.Status) {
			for range n {
				a := answer{of: log, sent: when, done: when + time.Millisecond, status: status}
				if status == lease.OK {
					a.granted = 1
				}
				answers = append(answers, a)
			}
		}
		at(row.granted[0], time.Second, lease.OK)
		at(row.granted[1], 6*time.Second, lease.OK)
		at(row.unavailable, 6*time.Second, lease.Unavailable)
		at(row.denied, 7*time.Second, lease.Denied)
		r := referee{begin: time.Now(), losses: row.losses, unanswered: func(span) int64 { return int64(row.unanswered) }}
		if found := r.judge(answers); len(found) > 0 != row.wrong {
			t.Errorf("%s: found %q", row.name, found)
		}
	}
}
