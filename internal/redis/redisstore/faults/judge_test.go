package faults

import (
	"context"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// flood is two replicas of the service, each a judge over a lease cache over a store,
// and clients of both that ask for a few keys as fast as they can.
type flood struct {
	*trial
	outage
	judges [2]engine.Judge
	seen   []judged // guarded by load.mu
}

// judged is what became of one request.
type judged struct {
	of         *counter
	replica    int
	sent, done time.Duration
	judgment   engine.Judgment
}

// failing makes a leased limit of 40 in a window that does not end within a trial, with an on_failure.
func failing(name string, f lease.OnFailure) *engine.Policy {
	l, err := limit.New(limit.Spec{Algorithm: limit.FixedWindow, Count: 40, Period: 300 * limit.Day})
	if err != nil {
		panic(err) // a mistake in this file
	}
	p := engine.NewPolicy(name, 0, l, lease.NewTerms(l, lease.Leased, 0, 0, 0))
	p.OnFailure = f
	return p
}

// startFlood starts two replicas that have seen each other. Nothing is asked yet.
func startFlood(t *testing.T, c *redistest.Cluster) *flood {
	t.Helper()
	f := &flood{trial: &trial{t: t, c: c, homes: map[*counter][]string{}}}
	f.load = &load{begin: time.Now(), stopped: make(chan struct{})}
	f.offer(nil)
	for i := range f.judges {
		s := startStore(t, c)
		behind := leasecache.New(leasecache.Config{Store: s, MaxKeys: 1000, MaxBytes: 1 << 20})
		runUntilEnd(t, behind.Run)
		f.judges[i] = engine.NewJudge(behind, behind, s.Replicas, nil, nil)
		f.stores = append(f.stores, s)
		for range 12 {
			f.all.Go(func() { f.ask(i) })
		}
	}
	for _, s := range f.stores {
		for deadline := time.Now().Add(patience); s.Replicas() != 2; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("a replica has seen %d", s.Replicas())
			}
		}
	}
	f.observe()
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
		asks := []engine.Ask{{Policy: j.of.policy, Key: []byte(j.of.key), Want: lease.Want{Need: 1, Waiting: 1, Want: 1}}}
		var judgments [1]engine.Judgment
		ctx, cancel := context.WithTimeout(context.Background(), budget)
		f.judges[replica].Judge(ctx, asks, judgments[:])
		cancel()
		j.done, j.judgment = f.at(), judgments[0]
		f.mu.Lock()
		f.seen = append(f.seen, j)
		f.calls = append(f.calls, span{j.sent, j.done})
		f.mu.Unlock()
	}
}

// judgments are what became of a key in some span: how many of its requests the
// store let pass, and how many its on_failure did.
type judgments struct {
	degraded, sound, failed int64
	asked                   [2]int64 // of each replica
}

func (v *judgments) add(j *judged) {
	v.asked[j.replica]++
	degraded := j.judgment.Degraded != engine.Sound
	switch {
	case degraded && j.judgment.Admitted:
		v.failed++
	case j.judgment.Admitted:
		v.sound++
	}
	if degraded {
		v.degraded++
	}
}

// sum adds up the requests for a key that were sent in a span.
func (f *flood) sum(c *counter, during span) (v judgments) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range f.seen {
		if j := &f.seen[i]; j.of == c && during.from <= j.sent && j.sent < during.until {
			v.add(j)
		}
	}
	return v
}

// awaitSound waits until no judgment is degraded for half a second.
func (f *flood) awaitSound() {
	f.t.Helper()
	const quiet = 500 * time.Millisecond
	for from := f.at(); ; time.Sleep(20 * time.Millisecond) {
		var degraded, asked int64
		for _, c := range *f.offered.Load() {
			v := f.sum(c, span{max(from, f.at()-quiet), forever})
			degraded += v.degraded
			asked += v.asked[0] + v.asked[1]
		}
		if f.at() > from+quiet && degraded == 0 && asked > 0 {
			return
		}
		if f.at() > from+patience {
			f.t.Fatalf("%v after the fault %d of %d judgments are degraded", patience, degraded, asked)
		}
	}
}

const forever = time.Duration(1 << 62)
