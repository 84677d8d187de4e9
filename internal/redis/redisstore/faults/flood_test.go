package faults

import (
	"slices"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// outage is a way in which a master is away.
type outage struct {
	name       string
	fail, mend func(*redistest.Server)
	// empty is true if it comes back without its counters.
	empty bool
	// replaced is true if a replica takes over before it is mended.
	replaced bool
	// full is true if it is not away, but has no memory for a new counter.
	full bool
}

// The outages.
var (
	killed   = outage{name: "kill", fail: (*redistest.Server).Kill, mend: (*redistest.Server).Restart, empty: true}
	paused   = outage{name: "pause", fail: (*redistest.Server).Pause, mend: (*redistest.Server).Resume}
	replaced = outage{name: "replace", fail: (*redistest.Server).Kill, mend: (*redistest.Server).Restart, replaced: true}
)

// filled is an outage of memory.
func filled(t *testing.T) outage {
	var free func()
	return outage{name: "fill", full: true,
		fail: func(s *redistest.Server) { free = fill(t, s) },
		mend: func(*redistest.Server) { free() },
	}
}

// floodWhileAway is what is worst: a flood on keys of which some are spent, while
// the master of a third of them is away. What was denied stays denied, local holds
// its share, and only what was never seen passes where it may. It costs Redis, and
// this process, no more than otherwise, and is over by itself.
func floodWhileAway(t *testing.T, c *redistest.Cluster, o outage) {
	f := startFlood(t, c)
	f.outage = o
	masters := c.Masters()
	var spent, fresh []*counter
	for _, p := range []*engine.Policy{failing("allow", lease.FailureAllow), failing("deny", lease.FailureDeny), failing("local", lease.FailureLocal)} {
		spent = append(spent, keysOf(p, o.name+"-spent", len(masters), 3/len(masters))...)
		fresh = append(fresh, keysOf(p, o.name+"-fresh", len(masters), 3/len(masters))...)
	}
	from := f.at()
	f.offerMore(spent)
	f.awaitSpent()
	f.calm = span{from, f.at()}
	f.watch.calm()

	scripts := f.outlast(masters[0], fresh)
	f.inTime()
	f.watch.flat(t)
	f.watch.thrifty(t, f.calm, f.fault)
	f.emptied(span{f.fault.from + finding, f.fault.until})
	f.soundElsewhere()
	for _, c := range spent {
		f.staysDenied(c)
	}
	for _, c := range fresh {
		f.onFailure(c)
	}
	f.cheap(scripts, append(spent, fresh...))
}

// outlast has the outage begin, asks for fresh keys in it, and waits until it is over.
// It returns how many scripts were run in it.
func (f *flood) outlast(victim *redistest.Server, fresh []*counter) (scripts int64) {
	f.t.Helper()
	scripts = f.costs(victim)
	from := f.at()
	f.fail(victim)
	f.offerMore(fresh)
	f.away(from)
	scripts = f.costs(victim) - scripts
	f.spareAllBut(victim)
	if f.full {
		f.struck = func(c *counter) bool { return slices.Contains(fresh, c) }
		f.spared = except(f.struck)
	}
	if f.replaced {
		f.awaitSound()
	}
	f.mend(victim)
	if f.replaced {
		f.c.Await()
	}
	f.awaitSound() // and half a second of it
	f.enough(1000, span{0, forever})
	f.halt()
	return scripts
}

// awaitSpent waits until every unit of what is offered was let pass, those too that
// were on lease to the other replica, and then for a denial to have been young.
func (f *flood) awaitSpent() {
	f.t.Helper()
	f.await(f.t, patience, "is spent", func() map[*counter]bool {
		spent := map[*counter]bool{}
		for _, c := range *f.offered.Load() {
			spent[c] = f.isSpent(c)
		}
		return spent
	})
	time.Sleep(200 * time.Millisecond)
}

// isSpent reports whether all units of a key were let pass. Where a busy machine left a
// call without an answer, units may have been charged to it that nobody got: then no
// more is to be had if for longer than any lease nothing was.
func (f *flood) isSpent(c *counter) bool {
	all := f.sum(c, span{0, forever})
	if all.sound == c.limit() || all.degraded == 0 {
		return all.sound == c.limit()
	}
	lately := f.sum(c, span{f.at() - 12*time.Second, forever})
	return lately.asked[0] > 0 && lately.asked[1] > 0 && lately.sound+lately.degraded == 0
}

// away lets the outage last, until a replica may take over or enough has been seen.
func (f *flood) away(from time.Duration) {
	if f.replaced {
		const elected = 900 * time.Millisecond // not before the cluster-node-timeout of a second
		time.Sleep(from + elected - f.at())
		f.fault = span{from, from + elected}
		return
	}
	f.harm(time.Second)
	f.fault.from = from
	time.Sleep(budget) // what was asked until now is answered before it is mended
}

// costs is how many scripts were run so far by those who can run any in an outage.
func (f *flood) costs(victim *redistest.Server) (scripts int64) {
	for _, n := range f.c.Nodes {
		if n != victim || f.full {
			scripts += n.CommandStats()["evalsha"].Calls
		}
	}
	return scripts
}

// cheap: a flood costs ten scripts per second and key of each replica, and log2 of
// the limit to find it.
func (f *flood) cheap(scripts int64, offered []*counter) {
	f.t.Helper()
	keys := int64(0)
	for _, c := range offered {
		if f.full || f.spared(c) {
			keys++
		}
	}
	took := f.fault.until - f.fault.from + budget
	if most := keys * int64(len(f.judges)) * (10*int64(took/time.Second+1) + 6); scripts > most {
		f.t.Errorf("a flood on %d keys cost their masters %d scripts in %v, at most %d", keys, scripts, took, most)
	}
	f.t.Logf("%d verdicts; %d scripts for %d keys during the fault", len(f.seen), scripts, keys)
}

// soundElsewhere: on keys whose master is well no verdict is degraded, unless the
// machine stood still.
func (f *flood) soundElsewhere() {
	f.t.Helper()
	wrong := 0
	for i := range f.seen {
		j := &f.seen[i]
		degraded := f.spared(j.of) && j.judgment.Degraded != engine.Sound
		if degraded && !f.witness.excuses(&answer{sent: j.sent, done: j.done}, f.homes[j.of]...) {
			if wrong++; wrong < 5 {
				f.t.Errorf("%v: %v at %v after %v though its master was well", j.of, j.judgment.Degraded, j.sent, j.done-j.sent)
			}
		}
	}
	if wrong > 0 {
		f.t.Errorf("%d verdicts degraded though their masters were well", wrong)
	}
}

// staysDenied: a key that was spent before the failure passes nothing in it, whatever
// its on_failure is, and nothing after it but what a counter that was lost grants
// anew. (What a replica that takes over lacks was granted long before.)
func (f *flood) staysDenied(c *counter) {
	f.t.Helper()
	before, during, after := f.sum(c, span{0, f.fault.from}), f.sum(c, f.fault), f.sum(c, span{f.fault.until, forever})
	wasted := before.degraded > 0 && before.sound < c.limit() // see isSpent
	if before.sound != c.limit() && !wasted || during.sound+during.failed > 0 {
		f.t.Errorf("%v: granted %d of %d, and then %+v while its master may be away", c, before.sound, c.limit(), during)
	}
	again := int64(0)
	if f.struck(c) && f.empty {
		again = c.limit()
	}
	if after.sound+after.failed > again {
		f.t.Errorf("%v: %d more when all was well again, at most %d", c, after.sound+after.failed, again)
	}
}

// onFailure: a key that was never seen before passes as its rule decides; that is
// reported when the master is back, and then counts.
func (f *flood) onFailure(c *counter) {
	f.t.Helper()
	during, after := f.sum(c, f.fault), f.sum(c, span{f.fault.until, forever})
	if sum := during.sound + after.sound; sum > c.limit() {
		f.t.Errorf("%v: granted %d, at most %d", c, sum, c.limit())
	}
	if !f.struck(c) {
		return
	}
	share := c.limit() / int64(len(f.judges))
	asked := during.asked[0] + during.asked[1]
	want := map[lease.OnFailure]int64{
		lease.FailureAllow: asked,
		lease.FailureDeny:  0,
		lease.FailureLocal: min(share, during.asked[0]) + min(share, during.asked[1]),
	}[c.policy.OnFailure]
	if during.failed != want || during.degraded != asked || asked < 2*c.limit() {
		f.t.Errorf("%v: %+v while its master was away, want %d to pass of more than %d", c, during, want, 2*c.limit())
	}
	if c.policy.OnFailure == lease.FailureDeny && after.sound == 0 {
		f.t.Errorf("%v: nothing was granted when its master was back", c)
	}
}
