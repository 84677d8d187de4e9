package redisstore_test

import (
	"context"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/regional/limiter"
	"github.com/weirlimit/weir/regional/limiter/front"
	"github.com/weirlimit/weir/regional/redisstore/redistest"
)

// flood is two replicas of the service, each a judge over a front over a store,
// and clients of both that ask for a few keys as fast as they can.
type flood struct {
	*trial
	judges [2]limiter.Judge
	seen   []judged // guarded by load.mu
}

// judged is what became of one request.
type judged struct {
	of         *counter
	replica    int
	sent, done time.Duration
	verdict    limiter.Verdict
}

// failing makes a leased limit of 40 a day with an on_failure.
func failing(name string, f rule.OnFailure) *limiter.Policy {
	l, err := limit.New(limit.Spec{Algorithm: limit.FixedWindow, Count: 40, Period: limit.Day})
	if err != nil {
		panic(err) // a mistake in this file
	}
	p := limiter.NewPolicy(name, 0, l, lease.NewTerms(l, lease.Leased, 0, 0, 0), 0)
	p.OnFailure = f
	return p
}

// startFlood starts two replicas that know of each other. Nothing is asked yet.
func startFlood(t *testing.T, c *redistest.Cluster) *flood {
	t.Helper()
	f := &flood{trial: &trial{t: t, c: c, homes: map[*counter][]string{}}}
	f.load = &load{begin: time.Now(), stopped: make(chan struct{})}
	f.offer(nil)
	for i := range f.judges {
		s := startStore(t, c)
		behind := front.New(front.Config{Store: s, MaxKeys: 1000, MaxBytes: 1 << 20})
		runUntilEnd(t, behind.Run)
		f.judges[i] = limiter.NewJudge(behind, behind, s.Replicas, nil, nil)
		f.store = s
		for range 12 {
			f.all.Go(func() { f.ask(i) })
		}
	}
	for deadline := time.Now().Add(patience); f.store.Replicas() != 2; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d replicas know of each other", f.store.Replicas())
		}
	}
	f.witness = startWitness(f.load, c.Nodes)
	t.Cleanup(f.halt)
	return f
}

// ask asks for one key after the other.
func (f *flood) ask(replica int) {
	for n := 0; ; n++ {
		select {
		case <-f.stopped:
			return
		case <-time.After(4 * time.Millisecond):
		}
		offered := *f.offered.Load()
		if len(offered) == 0 {
			continue
		}
		j := judged{of: offered[n%len(offered)], replica: replica, sent: f.at()}
		asks := []limiter.Ask{{Policy: j.of.policy, Key: []byte(j.of.key), Want: lease.Want{Need: 1, Waiting: 1, Want: 1}}}
		var verdicts [1]limiter.Verdict
		ctx, cancel := context.WithTimeout(context.Background(), budget)
		f.judges[replica].Judge(ctx, asks, verdicts[:])
		cancel()
		j.done, j.verdict = f.at(), verdicts[0]
		f.mu.Lock()
		f.seen = append(f.seen, j)
		f.calls = append(f.calls, span{j.sent, j.done})
		f.mu.Unlock()
	}
}

// verdicts are what became of a key in some span: how many of its requests the
// store let pass, and how many its on_failure did.
type verdicts struct{ asked, degraded, sound, failed int64 }

func (v *verdicts) add(j *judged) {
	v.asked++
	degraded := j.verdict.Degraded != limiter.Sound
	switch {
	case degraded && j.verdict.Admitted:
		v.failed++
	case j.verdict.Admitted:
		v.sound++
	}
	if degraded {
		v.degraded++
	}
}

// sum adds up the requests for a key that were sent in a span.
func (f *flood) sum(c *counter, from, until time.Duration) (v verdicts) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.seen {
		if j := &f.seen[i]; j.of == c && from <= j.sent && j.sent < until {
			v.add(j)
		}
	}
	return v
}

// awaitSound waits until no verdict is degraded for half a second.
func (f *flood) awaitSound() {
	f.t.Helper()
	const quiet = 500 * time.Millisecond
	for from := f.at(); ; time.Sleep(20 * time.Millisecond) {
		var degraded, asked int64
		for _, c := range *f.offered.Load() {
			v := f.sum(c, max(from, f.at()-quiet), forever)
			degraded += v.degraded
			asked += v.asked
		}
		if f.at() > from+quiet && degraded == 0 && asked > 0 {
			return
		}
		if f.at() > from+patience {
			f.t.Fatalf("%v after the fault %d of %d verdicts are degraded", patience, degraded, asked)
		}
	}
}

const forever = time.Duration(1 << 62)

// floodWhileAway is what is worst: a flood on keys of which some are spent, while
// the master of a third of them is away. What was denied stays denied, local holds
// its share, and only what was never seen passes where it may.
func floodWhileAway(t *testing.T, c *redistest.Cluster) {
	f := startFlood(t, c)
	var spent, fresh []*counter
	for _, p := range []*limiter.Policy{failing("allow", rule.FailureAllow), failing("deny", rule.FailureDeny), failing("local", rule.FailureLocal)} {
		spent = append(spent, keysOf(p, "spent", 3, 1)...)
		fresh = append(fresh, keysOf(p, "fresh", 3, 1)...)
	}
	f.offerMore(spent)
	f.awaitSound()
	time.Sleep(1500 * time.Millisecond) // for leases of 1 s to come back, and be spent

	victim := c.Nodes[0]
	before := c.Commands("evalsha").Calls - victim.CommandStats()["evalsha"].Calls
	from := f.at()
	victim.Kill()
	f.offerMore(fresh)
	time.Sleep(2 * time.Second)
	until := f.at()
	commands := c.Commands("evalsha").Calls - before
	victim.Restart()
	f.awaitSound()
	time.Sleep(time.Second)
	f.halt()
	f.inTime()

	f.spareAllBut(victim)
	f.soundElsewhere()
	for _, c := range spent {
		f.staysDenied(c, from, until)
	}
	for _, c := range fresh {
		f.onFailure(c, from, until)
	}
	// Ten per second and key of each replica, and log2(L) to find the limit.
	hot := int64(len(spent)+len(fresh)) * 2 / 3
	if most := hot * int64(len(f.judges)) * (10*int64((until-from)/time.Second+1) + 6); commands > most {
		t.Errorf("a flood on %d keys cost their masters %d scripts in %v, at most %d", hot, commands, until-from, most)
	}
	t.Logf("%d verdicts; %d scripts while the master of a third was away", len(f.seen), commands)
}

// soundElsewhere: on keys whose master is well no verdict is degraded, unless the
// machine stood still.
func (f *flood) soundElsewhere() {
	f.t.Helper()
	wrong := 0
	for i := range f.seen {
		j := &f.seen[i]
		degraded := f.spared(j.of) && j.verdict.Degraded != limiter.Sound
		if degraded && !f.witness.excuses(&answer{sent: j.sent, done: j.done}, f.homes[j.of]...) {
			if wrong++; wrong < 5 {
				f.t.Errorf("%v: %v at %v after %v though its master was well", j.of, j.verdict.Degraded, j.sent, j.done-j.sent)
			}
		}
	}
	if wrong > 0 {
		f.t.Errorf("%d verdicts degraded though their masters were well", wrong)
	}
}

// staysDenied: a key that was denied before the failure passes nothing in it,
// whatever its on_failure says, and nothing after it but what its lost counter
// grants anew.
func (f *flood) staysDenied(c *counter, from, until time.Duration) {
	f.t.Helper()
	before, during, after := f.sum(c, 0, from), f.sum(c, from, until), f.sum(c, until, forever)
	if during.failed > 0 || before.sound+during.sound > c.limit() || before.sound < c.limit()/2 {
		f.t.Errorf("%v: spent and then %+v while its master may be away", c, during)
	}
	again := c.limit() - before.sound - during.sound
	if f.struck(c) {
		again = c.limit()
	}
	if after.sound > again {
		f.t.Errorf("%v: %d more when all was well again, at most %d", c, after.sound, again)
	}
}

// onFailure: a key that was never seen before passes what its rule says; that is
// reported when the master is back, and then counts.
func (f *flood) onFailure(c *counter, from, until time.Duration) {
	f.t.Helper()
	during, after := f.sum(c, from, until), f.sum(c, until, forever)
	if sum := during.sound + after.sound; sum > c.limit() {
		f.t.Errorf("%v: granted %d, at most %d", c, sum, c.limit())
	}
	if !f.struck(c) {
		return
	}
	want := map[rule.OnFailure]int64{
		rule.FailureAllow: during.asked,
		rule.FailureDeny:  0,
		rule.FailureLocal: c.limit(), // two replicas, half of it each
	}[c.policy.OnFailure]
	if during.failed != want || during.degraded != during.asked {
		f.t.Errorf("%v: %+v while its master was away, want %d to pass", c, during, want)
	}
}
