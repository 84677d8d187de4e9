package aggregator_test

import (
	"context"
	"math"
	"testing"

	"github.com/weirlimit/weir/internal/aggregator"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/telemetry"
)

// weighed is an aggregator of which us asks, and eu, with a share of a quarter, is connected or not.
type weighed struct {
	t       *testing.T
	now     limit.Micros
	store   *aggregator.Store
	below   engine.Store
	policy  *engine.Policy
	metrics *telemetry.Registry
	seq     map[string]uint64
	last    limiter.Answerer    // who answered the regions last
	share   aggregator.Exchange // nil: it is the only aggregator
}

// newWeighed makes one that starts a second after a window began.
func newWeighed(t *testing.T, s limit.Spec) *weighed {
	t.Helper()
	l, err := limit.New(s)
	if err != nil {
		t.Fatal(err)
	}
	w := &weighed{t: t, now: 1_700_000_000*limit.Second/s.Period*s.Period + limit.Second, seq: map[string]uint64{}, metrics: telemetry.NewRegistry("test")}
	w.policy = engine.NewPolicy("r", 0, l, lease.NewTerms(l, lease.Exact, 0, 0, 0), 0)
	w.policy.Scope, w.policy.OnFailure, w.policy.Regions = rule.ScopeGlobal, lease.FailureLocal, quarters
	w.below = memory.New(memory.Config{MaxKeys: 1000, MaxBytes: 1 << 20, Now: w.clock})
	w.start()
	w.store.SetRegions(quarters)
	return w
}

func (w *weighed) clock() limit.Micros { return w.now }

// start starts the aggregator, with the counters that it had.
func (w *weighed) start() {
	w.store = aggregator.New(aggregator.Config{Store: w.below, MaxKeys: 100, MaxBytes: 1 << 20, Now: w.clock, Exchange: w.share, Metrics: w.metrics})
}

// restart saves, lets the time pass, and starts the aggregator again.
func (w *weighed) restart(after limit.Micros) {
	w.t.Helper()
	var records [][]byte
	w.store.Save(func(r []byte) { records = append(records, r) })
	w.now += after
	w.metrics = telemetry.NewRegistry("test")
	w.start()
	for _, r := range records {
		if err := w.store.Load(r); err != nil {
			w.t.Fatal(err)
		}
	}
	w.store.SetRegions(quarters)
}

// spend lets us spend all that it gets at once.
func (w *weighed) spend() (got int64) {
	for {
		asks := []engine.Ask{{Policy: w.policy, Key: []byte("k"), Region: "us", Want: lease.Want{Need: 1, Waiting: 1, Want: 1}}}
		grants := make([]lease.Grant, 1)
		w.store.Acquire(context.Background(), asks, grants)
		if grants[0].Limit != w.policy.Terms.Capacity {
			w.t.Errorf("clients get a limit of %d", grants[0].Limit)
		}
		if grants[0].Granted == 0 {
			return got
		}
		got++
	}
}

// pass lets the time pass, in which these regions call twice a second and get their replies.
func (w *weighed) pass(d limit.Micros, connected ...string) {
	for ends := w.now + d; w.now < ends; w.now += limit.Second / 2 {
		for _, region := range connected {
			w.seq[region]++
			w.store.Called(limiter.RegionCall{Region: region, Holder: limiter.HolderID{region[0]}, Seq: w.seq[region], Ack: w.seq[region] - 1, Answered: w.last})
		}
	}
}

// The share of a silent region is withheld in the windows that began in its silence until they
// end, and in no others.
func TestWithheldWindows(t *testing.T) {
	for _, algorithm := range []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow} {
		w := newWeighed(t, limit.Spec{Algorithm: algorithm, Count: 100, Period: limit.Minute})
		want := func(n int64, what string) {
			t.Helper()
			if got := w.spend(); got != n {
				t.Errorf("%v, %s: %d units, want %d", algorithm, what, got, n)
			}
		}
		want(100, "the window began before the aggregator")
		w.pass(2*limit.Minute, "us")
		want(75, "eu has never called")
		w.pass(10*limit.Second, "us", "eu")
		want(0, "eu is connected again in the window of its share")
		w.pass(110*limit.Second, "us", "eu")
		want(100, "eu was connected when the window began")
		w.pass(20*limit.Second, "us")
		want(0, "eu is silent in a window that began before")
		w.pass(100*limit.Second, "us")
		want(75, "eu was silent when the window began")
	}
}

// A call with a huge number in the name of a replica does not keep that replica's later calls, which it
// makes under another name, from showing that the region is connected.
func TestForgedNumber(t *testing.T) {
	w := newWeighed(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: limit.Minute})
	w.pass(2*limit.Minute, "us", "eu")
	w.store.Called(limiter.RegionCall{Region: "eu", Holder: limiter.HolderID{'e'}, Seq: math.MaxUint64})
	for ends := w.now + 2*limit.Minute; w.now < ends; {
		w.pass(limit.Second/2, "us")
		w.seq["eu"]++
		w.store.Called(limiter.RegionCall{Region: "eu", Holder: limiter.HolderID{'e'}, Worker: 7, Seq: w.seq["eu"], Ack: w.seq["eu"] - 1})
	}
	if got := w.spend(); got != 100 {
		t.Errorf("%d units of 100: eu counts as silent, though its replies are acknowledged", got)
	}
}

// A token bucket has no windows: the share is withheld as long as the region is silent.
func TestWithheldBucket(t *testing.T) {
	w := newWeighed(t, limit.Spec{Count: 60, Period: limit.Minute, Burst: 40})
	w.pass(4*limit.Second, "us")
	if got := w.spend(); got != 30 {
		t.Errorf("%d units of a new bucket of 40, eu silent, want 30", got)
	}
	w.pass(20*limit.Second, "us")
	if got := w.spend(); got != 15 {
		t.Errorf("%d units in 20 s at 60 a minute, eu silent, want 15", got)
	}
	w.pass(2*limit.Second, "us", "eu")
	w.spend()
	w.pass(20*limit.Second, "us", "eu")
	if got := w.spend(); got != 20 {
		t.Errorf("%d units in 20 s at 60 a minute, want 20", got)
	}
}

// A log has no windows either, but counts a period: for so long shares are withheld after the silence.
func TestWithheldLog(t *testing.T) {
	w := newWeighed(t, limit.Spec{Algorithm: limit.SlidingLog, Count: 100, Period: limit.Minute})
	w.pass(4*limit.Second, "us")
	if got := w.spend(); got != 75 {
		t.Errorf("%d units, eu silent, want 75", got)
	}
	w.pass(59*limit.Second, "us", "eu")
	if got := w.spend(); got != 0 {
		t.Errorf("%d units more within the minute", got)
	}
	w.pass(70*limit.Second, "us", "eu")
	if got := w.spend(); got != 100 {
		t.Errorf("%d units, eu connected for longer than a minute, want 100", got)
	}
}

// An aggregator that stood by withholds nothing because nobody called it before.
func TestStandby(t *testing.T) {
	w := newWeighed(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: limit.Hour})
	w.pass(3 * limit.Hour)
	w.pass(10*limit.Second, "us")
	if got := w.spend(); got != 100 {
		t.Errorf("%d units, want 100", got)
	}
	w.pass(limit.Hour, "us")
	if got := w.spend(); got != 75 {
		t.Errorf("%d units in the next window, eu silent, want 75", got)
	}
}

// An aggregator that starts again withholds what the one before withheld, whether it starts in the
// window of a share or one began while it was away, until those windows end.
func TestRestartInSilence(t *testing.T) {
	w := newWeighed(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: limit.Minute})
	want := func(n int64, what string) {
		t.Helper()
		if got := w.spend(); got != n {
			t.Errorf("%s: %d units, want %d", what, got, n)
		}
	}
	w.pass(50*limit.Second, "us", "eu")
	w.pass(30*limit.Second, "us")
	w.restart(limit.Second)
	want(75, "eu was silent when the window began, and calls no more")
	w.pass(5*limit.Second, "us", "eu")
	want(0, "eu is connected again in the window of its share")
	w.pass(40*limit.Second, "us", "eu")
	want(100, "eu was connected when the window began")
	w.restart(limit.Second)
	w.pass(54*limit.Second, "us", "eu")
	w.restart(limit.Second)
	want(100, "both were connected before the restart and are after it")
	w.pass(54*limit.Second, "us", "eu")
	w.restart(10 * limit.Second)
	w.pass(5*limit.Second, "us", "eu")
	want(0, "a window that began when nobody was connected, and each took its share")
}

// What the aggregator before had is of no use where the regions called another one meanwhile.
func TestRestartOfStandby(t *testing.T) {
	w := newWeighed(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: limit.Hour})
	w.pass(10*limit.Second, "us", "eu")
	w.restart(limit.Second)
	w.pass(3 * limit.Hour)
	w.last = limiter.AnotherAggregator
	w.pass(limit.Second, "us", "eu")
	if got := w.spend(); got != 100 {
		t.Errorf("%d units, want 100", got)
	}
}

// Regions that called no other aggregator while this one was away, or could not be reached, took their shares
// of the windows that began meanwhile, however long it took.
func TestRestartInAnOutage(t *testing.T) {
	for _, last := range []limiter.Answerer{limiter.NoAggregator, limiter.ThisAggregator} {
		w := newWeighed(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: 10 * limit.Minute})
		w.pass(10*limit.Second, "us", "eu")
		w.pass(2 * limit.Minute)
		w.restart(limit.Second)
		w.pass(9 * limit.Minute)
		w.last = last
		w.pass(limit.Second, "us", "eu")
		if got := w.spend(); got != 0 {
			t.Errorf("answered last by %d: %d units, want none: both regions have taken their shares of this window", last, got)
		}
		w.pass(10*limit.Minute, "us", "eu")
		if got := w.spend(); got != 100 {
			t.Errorf("answered last by %d: %d units of the next window, want 100", last, got)
		}
	}
}

// A region of more replicas than are kept is connected, though none of them calls for anything, and one
// caller that invents replicas does not make it silent.
func TestManyReplicas(t *testing.T) {
	w := newWeighed(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: limit.Minute})
	for n := range uint64(1000) {
		w.pass(limit.Second/2, "us")
		w.now -= limit.Second / 2
		for i := range byte(80) { // all of them every half second
			w.now += limit.Second / 2 / 80
			w.store.Called(limiter.RegionCall{Region: "eu", Holder: limiter.HolderID{'e', i}, Seq: n + 1, Ack: n})
			w.store.Called(limiter.RegionCall{Region: "eu", Holder: limiter.HolderID{'l', 'i', 'e', i, byte(n), byte(n >> 8)}, Seq: 1})
		}
		if n < 300 || n%100 > 0 {
			continue
		}
		if got := w.spend(); got != 100 && got != 0 {
			t.Fatalf("%d units of 100: eu counts as silent, though its replies are acknowledged", got)
		}
	}
}

// A clock that was set back hides for how long a region was silent.
func TestRestartInThePast(t *testing.T) {
	w := newWeighed(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: limit.Minute})
	w.pass(10*limit.Minute, "us")
	w.restart(-5 * limit.Minute)
	w.pass(2*limit.Second, "us")
	if got := w.spend(); got != 0 {
		t.Errorf("%d units, want none: both regions may have been silent when the window began", got)
	}
	w.pass(limit.Minute, "us", "eu")
	if got := w.spend(); got != 100 {
		t.Errorf("%d units of the next window, want 100", got)
	}
}

// A record that is not one leaves the others as they are.
func TestLoadDamaged(t *testing.T) {
	w := newWeighed(t, limit.Spec{Count: 100, Period: limit.Hour})
	for _, record := range []string{"", "[]", `{"region":5}`, `{"region":"eu","past":[["a"]]}`} {
		if err := w.store.Load([]byte(record)); err == nil {
			t.Errorf("%q is accepted", record)
		}
	}
}

// Nothing is withheld from a rule that does not enforce shares.
func TestWithheldByRule(t *testing.T) {
	w := newWeighed(t, limit.Spec{Count: 100, Period: limit.Hour})
	w.policy.OnFailure = lease.FailureAllow
	if got := w.spend(); got != 100 {
		t.Errorf("%d units, want 100", got)
	}
}

// Acknowledgements without a reply, and of replies to others, do not end the silence of a region.
func TestForeignAcknowledgements(t *testing.T) {
	w := newWeighed(t, limit.Spec{Count: 100, Period: limit.Hour})
	for seq := range uint64(20) {
		w.now += limit.Second / 2
		w.store.Called(limiter.RegionCall{Region: "eu", Holder: limiter.HolderID{1}, Seq: 2*seq + 1, Ack: 2*seq + 2}) // of a call that never came
		w.store.Called(limiter.RegionCall{Region: "us", Holder: limiter.HolderID{2}, Seq: seq + 1, Ack: seq})
		w.store.Called(limiter.RegionCall{Region: "ap", Holder: limiter.HolderID{3}, Seq: seq + 1, Ack: seq}) // has no share
	}
	if got := w.spend(); got != 75 {
		t.Errorf("%d units, eu silent, want 75", got)
	}
}
