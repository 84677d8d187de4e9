package faults

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/redis/redisstore"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// trial is one fault under load: what is asked, what is watched meanwhile, and
// what has to hold in the end whatever the fault was.
type trial struct {
	*load
	t        *testing.T
	c        *redistest.Cluster
	stores   []*redisstore.Store
	watch    *watch
	witness  *witness
	visitors *visitors
	homes    map[*counter][]string // addresses of the masters that may have it
	losses   []loss
	hangs    []hang
	// struck are the counters that the fault is to hit; on those that are spared
	// every ask has to be decided. What is neither may be away now and then.
	struck, spared func(*counter) bool
	// fault is while it harmed, and calm was a time of the same load before it.
	calm, fault span

	halted sync.Once
}

// except are the counters outside of a set.
func except(of func(*counter) bool) func(*counter) bool {
	return func(c *counter) bool { return !of(c) }
}

// startTrial starts a store and the load on it, and waits until every counter has
// been decided on and most limits are used up.
func startTrial(t *testing.T, c *redistest.Cluster, offered []*counter) *trial {
	t.Helper()
	none := func(*counter) bool { return false }
	store := startStore(t, c)
	r := &trial{t: t, c: c, stores: []*redisstore.Store{store}, homes: map[*counter][]string{}, struck: none, spared: except(none)}
	r.load = startLoad(store, nil)
	r.observe()
	slots := keysOf(slotted, offered[0].key, len(c.Masters()), 1)
	r.locate(slots)
	r.visitors = startVisitors(r.load, slots)
	from := r.at()
	r.offerMore(offered)
	r.awaitSpent(t, 0)
	r.calm = span{from, r.at()}
	r.watch.calm()
	return r
}

// observe starts who watches the load, until it is halted.
func (r *trial) observe() {
	r.watch = startWatch(r.load, r.stores...)
	r.witness = startWitness(r.load, r.c.Nodes)
	r.t.Cleanup(r.halt)
}

// startStore runs a store for as long as the test.
func startStore(t *testing.T, c *redistest.Cluster) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(redisstore.Config{Redis: topology.Config{Addrs: c.Addrs()}, Queue: room})
	if err != nil {
		t.Fatal(err)
	}
	runUntilEnd(t, s.Run)
	ready, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if err := s.Ready(ready); err != nil {
		t.Fatal(err)
	}
	return s
}

// runUntilEnd runs a component for as long as the test.
func runUntilEnd(t *testing.T, run func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
	})
}

// room is what the queue of each node holds.
const room = 256

// locate notes which masters have these.
func (r *trial) locate(counters []*counter) {
	owners := r.c.Owners()
	for _, c := range counters {
		r.homes[c] = []string{owners(c.slot).Addr}
	}
}

// offerMore asks for these as well from now on.
func (r *trial) offerMore(more []*counter) {
	r.locate(more)
	r.offer(append(slices.Clone(*r.offered.Load()), more...))
	time.Sleep(150 * time.Millisecond)
}

// spareAllBut notes that the fault is to hit these masters and no other.
func (r *trial) spareAllBut(victims ...*redistest.Server) {
	r.struck = func(c *counter) bool {
		return slices.ContainsFunc(victims, func(s *redistest.Server) bool { return slices.Contains(r.homes[c], s.Addr) })
	}
	r.spared = except(r.struck)
}

// lost notes that counters are lost now; see [loss].
func (r *trial) lost(of func(*counter) bool) {
	r.losses = append(r.losses, loss{of: of, at: r.at()})
}

// recovers waits until everything is decided again without anybody's help, and
// lets that go on for a while.
func (r *trial) recovers() {
	r.t.Helper()
	from := r.at()
	r.awaitAnswers(r.t, from, patience)
	r.t.Logf("recovered within %v", (r.at() - from).Round(10*time.Millisecond))
	time.Sleep(500 * time.Millisecond)
}

// halt stops the load and who watches it, at the end of the trial or of the test.
func (r *trial) halt() {
	r.halted.Do(func() {
		r.stop()
		if r.visitors != nil {
			r.visitors.all.Wait()
		}
		r.watch.stop()
		r.witness.stop()
	})
}

// end stops the load and judges all of it.
func (r *trial) end() {
	r.t.Helper()
	r.enough(1000, span{0, forever})
	r.halt()
	r.inTime()
	r.watch.flat(r.t)
	r.watch.thrifty(r.t, r.calm, r.fault)
	r.noErrorElsewhere()
	referee := referee{begin: r.begin, losses: r.losses, hangs: r.hangs, unanswered: r.watch.unanswered}
	faults := append(referee.judge(r.answers), referee.crowded(r.visitors.stays)...)
	for _, f := range faults[:min(20, len(faults))] {
		r.t.Error(f)
	}
	var sum tally
	for i := range r.answers {
		sum.add(&r.answers[i])
	}
	r.t.Logf("%d asks: %v", len(r.answers), sum)
	if r.fault.until == 0 {
		r.t.Error("nobody noted when the fault was")
	}
	if sum.granted == 0 || sum.denied == 0 {
		r.t.Error("a load that is not granted and denied both shows nothing")
	}
}

// noErrorElsewhere: what is on the nodes that are well is decided, every single
// time, unless the machine or that very node stood still.
func (r *trial) noErrorElsewhere() {
	r.t.Helper()
	var asked, failed, excused int
	for i := range r.answers {
		a := &r.answers[i]
		if !r.spared(a.of) {
			continue
		}
		asked++
		switch {
		case a.status != lease.Unavailable:
		case r.witness.excuses(a, r.homes[a.of]...):
			excused++
		default:
			if failed++; failed < 5 {
				r.t.Errorf("%v: unavailable at %v after %v, though its node was well", a.of, a.sent, a.done-a.sent)
			}
		}
	}
	r.t.Logf("of %d asks on nodes that are well %d were unavailable, and %d more while the machine stood still", asked, failed, excused)
	if failed > 0 {
		r.t.Errorf("%d asks unavailable on nodes that were well", failed)
	}
}

// finding is how long it may take to notice that a node is away.
const finding = 300 * time.Millisecond

// refuses: of the counters that the fault hit nothing was decided, and they were
// unavailable at once, so that on_failure can decide. Only the calls that found
// out, and those that probe, waited.
func (r *trial) refuses() {
	r.t.Helper()
	known := span{r.fault.from + finding, r.fault.until} // to be away
	sum := r.during(r.struck, known)
	if sum.granted > 0 || sum.denied > 0 || sum.unavailable == 0 {
		r.t.Errorf("while their node was away its keys were answered %v", sum)
	}
	var waited, alone int // in a call of several, others may have waited
	for i := range r.answers {
		a := &r.answers[i]
		if !a.alone || a.sent < known.from || a.sent >= known.until || a.status != lease.Unavailable || r.witness.excuses(a) {
			continue
		}
		if alone++; a.done-a.sent > budget/2 {
			waited++
		}
	}
	if waited > alone/10 {
		r.t.Errorf("%d of %d asks waited for a node that was known to be away, at most a tenth", waited, alone)
	}
	r.emptied(known)
}

// emptied: as soon as a node is known to be away nothing waits for it. Asks for the
// others pass through their queues, which are mostly empty; one that is not emptied
// always holds something.
func (r *trial) emptied(during span) {
	r.t.Helper()
	const often = 0.75 // of the samples
	share := r.watch.queued(during, r.witness.stalled)
	if share > often {
		r.t.Errorf("asks waited in %.0f %% of the samples, though their node was known to be away: want %.0f %% at most", 100*share, 100*often)
	}
	r.t.Logf("asks waited in %.0f %% of the samples", 100*share)
}

// beginsAnew: each counter that was hit was granted its whole limit again, as if never
// asked for before, but for what may have been charged without a word. Its denial in the end,
// without which the referee could not judge, is awaited.
func (r *trial) beginsAnew() {
	r.t.Helper()
	granted := map[*counter]int64{}
	for _, a := range r.since(r.fault.until) {
		granted[a.of] += a.granted
	}
	var missing int64
	for _, c := range *r.offered.Load() {
		if r.struck(c) && c.policy.Rule != perSecond {
			missing += max(0, c.limit()-granted[c])
		}
	}
	unanswered := r.watch.unanswered(span{r.fault.until, forever})
	if missing > unanswered {
		r.t.Errorf("%d units less than their limits were granted after their nodes came back empty, and no more than %d asks may have been charged without an answer", missing, unanswered)
	}
	r.t.Logf("granted anew: all but %d units; %d asks have no answer", missing, unanswered)
}

// during is what became of the counters of a set in asks sent in a span.
func (r *trial) during(of func(*counter) bool, while span) (sum tally) {
	for _, a := range r.since(while.from) {
		if a.sent < while.until && of(a.of) {
			sum.add(&a)
		}
	}
	return sum
}

// grantedAgain is how much was granted beyond the limits of the counters that the
// fault hit.
func (r *trial) grantedAgain() (units int64) {
	r.t.Helper()
	granted := map[*counter]int64{}
	for _, a := range r.answers {
		granted[a.of] += a.granted
	}
	for c, g := range granted {
		if r.struck(c) && c.policy.Rule != perSecond {
			units += max(0, g-c.limit())
		}
	}
	r.t.Logf("granted again: %d units", units)
	return units
}
