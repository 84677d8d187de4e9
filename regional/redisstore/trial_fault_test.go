package redisstore_test

import (
	"context"
	"errors"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/regional/redisstore"
	"github.com/weirlimit/weir/regional/redisstore/redistest"
)

// trial is one fault under load: what is asked, what is watched meanwhile, and
// what has to hold in the end whatever the fault was.
type trial struct {
	*load
	t        *testing.T
	c        *redistest.Cluster
	store    *redisstore.Store
	witness  *witness
	visitors *visitors
	homes    map[*counter][]string // addresses of the masters that may have it
	losses   []loss
	hangs    []hang
	// struck are the counters that the fault is to hit; on those that are spared
	// every ask has to be decided. What is neither may be away now and then.
	struck, spared func(*counter) bool

	halted     sync.Once
	sampling   sync.WaitGroup
	goroutines struct {
		before, most int
		what         string // what they did when they were too many
	}
	deepest int // most that ever waited in the queues
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
	r := &trial{t: t, c: c, store: startStore(t, c), homes: map[*counter][]string{}, struck: none, spared: except(none)}
	r.load = startLoad(r.store, nil)
	r.witness = startWitness(r.load, c.Nodes)
	t.Cleanup(r.halt)
	slots := keysOf(slotted, offered[0].key, len(c.Masters()), 1)
	r.locate(slots)
	r.visitors = startVisitors(r.load, slots)
	r.offerMore(offered)
	r.awaitSpent(t, 0)
	r.goroutines.before = runtime.NumGoroutine()
	r.sampling.Go(r.sample)
	return r
}

// startStore runs a store for as long as the test.
func startStore(t *testing.T, c *redistest.Cluster) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(redisstore.Config{Addrs: c.Addrs(), Queue: room})
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

// spareAllBut says that the fault is to hit these masters and no other.
func (r *trial) spareAllBut(victims ...*redistest.Server) {
	r.struck = func(c *counter) bool {
		return slices.ContainsFunc(victims, func(s *redistest.Server) bool { return slices.Contains(r.homes[c], s.Addr) })
	}
	r.spared = except(r.struck)
}

// sample looks at what has to stay flat. Of goroutines it counts those that stay
// for a while: when deadlines pass on a crowded machine, a goroutine for each of
// them waits for its turn.
func (r *trial) sample() {
	const while = 50
	var last [while]int
	for n := 0; ; n++ {
		last[n%while] = runtime.NumGoroutine()
		if low := slices.Min(last[:]); low > r.goroutines.most {
			r.goroutines.most = low
			if low > r.goroutines.before+dialling {
				var b strings.Builder
				_ = pprof.Lookup("goroutine").WriteTo(&b, 1)
				r.goroutines.what = b.String()
			}
		}
		r.deepest = max(r.deepest, r.store.Stats().Queued)
		select {
		case <-r.stopped:
			return
		case <-time.After(5 * time.Millisecond):
		}
	}
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
		r.sampling.Wait()
		r.witness.stop()
	})
}

// end stops the load and judges all of it.
func (r *trial) end() {
	r.t.Helper()
	r.halt()
	r.inTime()
	r.flat()
	r.noErrorElsewhere()
	faults := append(judge(r.begin, r.answers, r.losses, r.hangs), crowded(r.visitors.stays, r.losses, r.hangs)...)
	for _, f := range faults[:min(20, len(faults))] {
		r.t.Error(f)
	}
	var sum tally
	for i := range r.answers {
		sum.add(&r.answers[i])
	}
	r.t.Logf("%d asks: %+v", len(r.answers), sum)
	if sum.granted == 0 || sum.denied == 0 {
		r.t.Error("a load that is not granted and denied both shows nothing")
	}
}

// inTime: of the calls that the machine did not hold up, 999 of 1,000 return within
// their budget and 20 ms.
func (r *trial) inTime() {
	r.t.Helper()
	var took []time.Duration
	for _, c := range r.calls {
		if !r.witness.stalled(c) {
			took = append(took, c.until-c.from)
		}
	}
	p := func(share float64) time.Duration { return percentile(took, share).Round(10 * time.Microsecond) }
	r.t.Logf("%d calls, %d of them held up by the machine; the others p50 %v, p99 %v, p99.9 %v",
		len(r.calls), len(r.calls)-len(took), p(0.5), p(0.99), p(0.999))
	if got := p(0.999); got > budget+20*time.Millisecond {
		r.t.Errorf("p99.9 of a call took %v, at most %v", got, budget+20*time.Millisecond)
	}
}

// dialling is how many goroutines may come on top of those that always run: of
// clients that connect, and look for masters.
const dialling = 16

// flat: neither goroutines nor queues grow with the time for which a node hangs.
func (r *trial) flat() {
	r.t.Helper()
	if r.goroutines.what != "" {
		r.t.Errorf("%d goroutines before, %d at most later: want no more than %d more, not\n%s", r.goroutines.before, r.goroutines.most, dialling, r.goroutines.what)
	}
	if most := room * len(r.c.Nodes); r.deepest > most {
		r.t.Errorf("%d asks waited in queues with room for %d", r.deepest, most)
	}
	if n := r.store.Stats().Queued; n != 0 {
		r.t.Errorf("%d asks still wait though nobody asks", n)
	}
	r.t.Logf("goroutines: %d, at most %d; queued at most %d", r.goroutines.before, r.goroutines.most, r.deepest)
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

// refuses: of the counters that the fault hit nothing was decided, and they were
// unavailable at once, so that on_failure can decide. Only the calls that found
// out, and those that probe, waited.
func (r *trial) refuses(from, until time.Duration) {
	r.t.Helper()
	const finding = 300 * time.Millisecond
	sum := r.during(r.struck, from+finding, until)
	if sum.granted > 0 || sum.denied > 0 || sum.unavailable == 0 {
		r.t.Errorf("while their node was away its keys were answered %+v", sum)
	}
	var waited, alone int // in a call of several, others may have waited
	for i := range r.answers {
		a := &r.answers[i]
		if !a.alone || a.sent < from+finding || a.sent >= until || a.status != lease.Unavailable || r.witness.excuses(a) {
			continue
		}
		if alone++; a.done-a.sent > budget/2 {
			waited++
		}
	}
	if waited > alone/10 {
		r.t.Errorf("%d of %d asks waited for a node that was known to be away, at most a tenth", waited, alone)
	}
}

// beginsAnew: what was hit was granted again, as if never asked for before.
func (r *trial) beginsAnew(from time.Duration) {
	r.t.Helper()
	granted := map[*counter]int64{}
	for _, a := range r.since(from) {
		granted[a.of] += a.granted
	}
	for _, c := range *r.offered.Load() {
		if r.struck(c) && granted[c] == 0 {
			r.t.Errorf("%v was granted nothing after its node came back empty", c)
		}
	}
}

// during is what became of the counters of a set in asks sent in a span.
func (r *trial) during(of func(*counter) bool, from, until time.Duration) (sum tally) {
	for _, a := range r.since(from) {
		if a.sent < until && of(a.of) {
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
