package aggregator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/aggregator"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
)

var minutely = limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: limit.Minute}

// The share of a region that is cut off is withheld in windows that it has not renounced, and in those in which it may
// have used it until they end; the region uses it there. Together they are the limit.
func TestCutOff(t *testing.T) {
	for _, algorithm := range []limit.Algorithm{limit.FixedWindow, limit.SlidingWindow} {
		s := minutely
		s.Algorithm = algorithm
		w := newReserves(t, s, 2)
		w.pass(90 * limit.Second)
		w.want("us", 100, "all are connected")
		w.regions["eu"].cut = true
		w.pass(20 * limit.Second)
		w.want("eu", 0, "the window was renounced")
		w.pass(60 * limit.Second)
		if algorithm == limit.SlidingWindow {
			w.pass(limit.Minute)
		}
		w.want("us", 75, "eu is cut off")
		w.want("eu", 25, "it is cut off")
		if text := measure.Page(w.metrics.Handler()); len(w.log.With("region cut off")) != 2 || !strings.Contains(text, `weir_region_withheld{region="eu"} 250`) {
			t.Errorf("told: %q", w.log.With())
		}
		w.regions["eu"].cut = false
		w.pass(5 * limit.Second)
		w.want("us", 0, "eu is back in the window of its share")
		w.pass(115 * limit.Second)
		if algorithm == limit.FixedWindow {
			w.want("us", 100, "eu was back when the window began")
		}
		w.pass(2 * limit.Minute)
		w.want("us", 100, "long after")
		if text := measure.Page(w.metrics.Handler()); len(w.log.With("region connected")) != 2 || !strings.Contains(text, `weir_region_withheld{region="eu"} 0`) {
			t.Errorf("told: %q", w.log.With())
		}
		if r := w.regions["eu"].record; len(r.Used) != 0 {
			t.Errorf("%+v", r)
		}
	}
}

// An aggregator whose table is lost decides nothing until it has heard all regions, or for a second.
func TestLostTable(t *testing.T) {
	w := newReserves(t, minutely, 1)
	w.pass(90 * limit.Second)
	w.cell = w.below.NewCell()
	w.pass(5 * limit.Second)
	w.want("us", 100, "the aggregator has its copy")
	w.pass(limit.Minute)
	w.regions["eu"].cut = true
	w.cell = w.below.NewCell()
	w.start(0)
	if w.call(w.regions["us"]); undecided(w.regions["us"].err) == "" || !strings.Contains(w.reason, "nothing is known") {
		t.Errorf("us is answered: %v; %q", w.regions["us"].err, w.reason)
	}
	w.regions["eu"].cut = false
	w.call(w.regions["eu"])
	if w.call(w.regions["us"]); w.regions["us"].err != nil {
		t.Errorf("all were heard: %v", w.regions["us"].err)
	}
	w.cell = w.below.NewCell()
	w.start(0)
	w.regions["eu"].cut = true
	w.pass(1500 * limit.Millisecond)
	if w.regions["us"].err != nil || w.reason != "" {
		t.Errorf("after a second: %v; %q", w.regions["us"].err, w.reason)
	}
}

func undecided(err error) string {
	if err == nil {
		return ""
	}
	_, reason, _ := strings.Cut(err.Error(), "nothing can be decided: ")
	return reason
}

// The clock of the store is set back ten minutes and the aggregators start again, or one of them does, or none: they
// reject calls as a whole, and no window has more than its limit.
func TestClockSetBack(t *testing.T) {
	for restarts := range 3 {
		w := newReserves(t, minutely, 2)
		w.pass(90 * limit.Second)
		w.wall -= 10 * limit.Minute
		for i := range restarts {
			w.start(i)
		}
		w.pass(2 * limit.Second)
		if w.want("us", 0, "the window was renounced"); !strings.Contains(w.reason, "clock of the store") {
			t.Errorf("%d restarts: %q", restarts, w.reason)
		}
		for range 3 {
			w.pass(limit.Minute)
			w.want("us", 75, "by its reserve")
			w.want("eu", 25, "by its reserve")
		}
		w.wall += 10 * limit.Minute
		w.pass(2 * limit.Second)
		if w.want("us", 0, "it has used its reserve"); w.reason != "" || w.regions["us"].err != nil {
			t.Errorf("%d restarts, the clock is right again: %q, %v", restarts, w.reason, w.regions["us"].err)
		}
		w.pass(limit.Minute)
		w.want("us", 100, "the next window")
	}
}

// An aggregator whose store is away rejects calls as a whole, within two seconds.
func TestStoreAway(t *testing.T) {
	w := newReserves(t, minutely, 1)
	w.pass(90 * limit.Second)
	w.away = true
	w.pass(2 * limit.Second)
	if got := undecided(w.regions["us"].err); !strings.Contains(got, "store") || w.reason != got || !strings.Contains(measure.Page(w.metrics.Handler()), "weir_aggregator_undecided 1") {
		t.Errorf("%q, health: %q", got, w.reason)
	}
	w.away = false
	w.pass(limit.Second)
	if w.want("us", 100, "the store is back"); w.reason != "" || !strings.Contains(measure.Page(w.metrics.Handler()), "weir_aggregator_undecided 0") {
		t.Errorf("health: %q", w.reason)
	}
}

// A region that is gone is withheld until a person declares it dead, and not sooner than ten seconds after it called.
func TestForget(t *testing.T) {
	w := newReserves(t, minutely, 2)
	w.pass(90 * limit.Second)
	w.regions["eu"].cut = true
	w.pass(5 * limit.Second)
	for name, want := range map[string]string{"eu": "not dead", "ap": "known regions: eu, us"} {
		if err := w.stores[0].Forget(t.Context(), name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.pass(limit.Minute)
	w.want("us", 75, "eu is cut off")
	fatal.If(t, w.stores[1].Forget(t.Context(), "eu"))
	w.pass(limit.Second)
	w.want("us", 25, "eu was declared dead")
	w.regions["eu"].cut = false
	w.pass(limit.Minute)
	w.want("us", 100, "eu is back")
	w.regions["eu"].cut = true
	w.pass(2 * limit.Minute)
	w.want("us", 75, "eu is cut off again")
	forgotten := make(chan error)
	w.during = func() {
		go func() { forgotten <- w.stores[0].Forget(t.Context(), "eu") }()
		time.Sleep(10 * time.Millisecond)
	}
	w.exchange()
	fatal.If(t, <-forgotten)
	w.pass(limit.Second)
	w.want("us", 25, "eu was declared dead while an exchange was on its way")
}

// A region that is taken out of the rules is withheld until it was told, and then forgotten. One that is cut off meanwhile
// keeps its share.
func TestTakenOut(t *testing.T) {
	w := newReserves(t, minutely, 2)
	w.pass(90 * limit.Second)
	w.regions["eu"].cut = true
	w.weights = rule.Regions{{Name: "us", Weight: 1}}
	for _, s := range w.stores {
		s.SetRegions(w.weights)
	}
	w.pass(2 * limit.Minute)
	w.want("us", 75, "eu does not know")
	w.want("eu", 25, "it does not know")
	w.regions["eu"].cut = false
	w.pass(2 * limit.Minute)
	w.regions["eu"].cut = true
	w.pass(2 * limit.Minute)
	w.want("us", 100, "eu knows")
	w.want("eu", 0, "it knows")
	if err := w.stores[0].Forget(t.Context(), "eu"); err == nil || !strings.Contains(err.Error(), "known regions: us") {
		t.Errorf("eu is known: %v", err)
	}
}

// An aggregator that starts without rules, because Consul is away, issues nothing: it would take the shares of all.
func TestWithoutRulesNothingIsIssued(t *testing.T) {
	w := newReserves(t, minutely, 1)
	w.pass(90 * limit.Second)
	w.stores[0] = aggregator.New(aggregator.Config{Store: w.below, MaxKeys: 100, MaxBytes: 1 << 20, Now: w.clock, Steady: func() limit.Micros { return w.now }, Cell: w})
	w.pass(3 * limit.Second)
	w.regions["eu"].cut = true
	w.pass(2 * limit.Minute)
	w.want("eu", 25, "cut off from an aggregator without rules")
}
