package aggregator_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/weirlimit/weir/internal/aggregator"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/telemetry"
)

// fleet is aggregators on one store, of which each region calls one.
type fleet struct {
	*weighed
	stores  []*aggregator.Store
	records map[string][]byte // what they exchange
	away    bool              // nothing is exchanged
	ahead   limit.Micros      // the clock that all read, of that of the test
}

func newFleet(t *testing.T, s limit.Spec, n int) *fleet {
	t.Helper()
	f := &fleet{weighed: newWeighed(t, s), records: map[string][]byte{}, ahead: limit.Hour}
	f.share = f.exchange
	for range n {
		f.add()
	}
	return f
}

// add starts one more aggregator.
func (f *fleet) add() {
	f.metrics = telemetry.NewRegistry("test")
	f.start()
	f.store.SetRegions(quarters)
	f.stores = append(f.stores, f.store)
}

// exchange takes 2 ms.
func (f *fleet) exchange(_ context.Context, e aggregator.Records) (got aggregator.Exchanged, err error) {
	if f.away {
		return got, errors.New("redis is away")
	}
	f.now += limit.Millisecond
	got.Now = f.now + f.ahead
	got.WasSet = got.Now >= e.After && got.Now < e.After+limit.Second
	for i, name := range e.Regions {
		got.Found = append(got.Found, f.records[name])
		if got.WasSet && len(e.Set[i]) > 0 {
			f.records[name] = e.Set[i]
		}
	}
	f.now += limit.Millisecond
	return got, nil
}

// call lets the time pass, in which regions call these aggregators, and those are not away exchange.
func (f *fleet) call(d limit.Micros, which map[string]int, paused ...int) {
	for ends := f.now + d; f.now < ends; {
		for region, i := range which {
			f.store = f.stores[i]
			f.pass(1, region)
			f.now -= limit.Second / 2
		}
		for range 2 {
			for i, s := range f.stores {
				if !slices.Contains(paused, i) {
					_ = s.Share(f.t.Context()) // an error is one of the test
				}
			}
			f.now += limit.Second / 4
		}
	}
}

// get is what us gets at once of an aggregator.
func (f *fleet) get(i int) int64 {
	f.store = f.stores[i]
	return f.spend()
}

var minute = limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: limit.Minute}

// Regions that call different aggregators on one store are connected for both.
func TestSharedSigns(t *testing.T) {
	f := newFleet(t, minute, 2)
	f.call(3*limit.Minute, map[string]int{"eu": 0, "us": 1})
	if got := f.get(1); got != 100 {
		t.Errorf("%d units of 100 while eu calls another aggregator", got)
	}
	f.call(2*limit.Minute, map[string]int{"us": 1})
	if got := f.get(1); got != 75 {
		t.Errorf("%d units while eu calls nobody, want 75", got)
	}
}

// Regions that come back to an aggregator were not silent while they called another one.
func TestSharedReturn(t *testing.T) {
	f := newFleet(t, minute, 2)
	f.call(2*limit.Minute, map[string]int{"eu": 0, "us": 0})
	f.call(5*limit.Minute, map[string]int{"eu": 1, "us": 1})
	f.call(5*limit.Second, map[string]int{"eu": 0, "us": 0})
	if got := f.get(0); got != 100 {
		t.Errorf("%d units of 100, of a window in which both regions were connected", got)
	}
}

// An aggregator that was paused, and is called before it has exchanged, has shares withheld at most until it has.
func TestSharedPause(t *testing.T) {
	f := newFleet(t, minute, 2)
	f.call(2*limit.Minute, map[string]int{"eu": 0, "us": 0})
	f.call(5*limit.Minute, map[string]int{"eu": 1, "us": 1}, 0)
	f.call(limit.Second, map[string]int{"eu": 0, "us": 0}, 0) // both calls are acknowledged
	for _, s := range f.stores {
		_ = s.Share(t.Context())
	}
	for _, i := range []int{1, 0} { // the one that went on has not taken over what the other one found
		if got := f.get(i); i == 1 && got != 100 || i == 0 && got != 0 {
			t.Errorf("aggregator %d: %d units of 100, of a window in which both regions were connected", i, got)
		}
	}
}

// An aggregator that starts goes on with the silences that another one has shared: also when its exchange fails at
// first, and of a region that nobody has ever heard of.
func TestSharedTakeover(t *testing.T) {
	for name, c := range map[string]struct {
		eu   bool         // was ever connected
		away limit.Micros // nothing is exchanged for so long
	}{
		"at once":                      {true, 0},
		"after calls":                  {true, limit.Second},
		"a region that was never seen": {false, 0},
		"that, after calls":            {false, limit.Second},
	} {
		f := newFleet(t, minute, 1)
		if c.eu {
			f.call(2*limit.Minute, map[string]int{"eu": 0, "us": 0})
		}
		f.call(130*limit.Second, map[string]int{"us": 0}) // a window has begun in the silence of eu
		if c.eu {
			f.call(8*limit.Second, map[string]int{"us": 0, "eu": 0})
		}
		f.add()
		f.away = true
		f.call(c.away, map[string]int{"us": 1, "eu": 1})
		if got := f.get(1); got != 0 {
			t.Errorf("%s: %d units before it has exchanged, want none", name, got)
		}
		f.away = false
		f.call(2*limit.Second, map[string]int{"us": 1, "eu": 1})
		if got := f.get(1); got != 75 {
			t.Errorf("%s: %d units of the window that began in the silence of eu, want 75", name, got)
		}
	}
}

// Where nothing can be exchanged an aggregator goes on as one that is alone, 3 s after its start.
func TestSharedAlone(t *testing.T) {
	f := newFleet(t, minute, 0)
	f.away = true
	f.add()
	f.call(4*limit.Second, map[string]int{"us": 0, "eu": 0})
	if got := f.get(0); got != 100 {
		t.Errorf("%d units of 100", got)
	}
}

// An aggregator that knows nothing, because records were lost or could not be read when it started, takes away
// nothing of what others know, and one that goes on after it withholds no more than it.
func TestSharedIgnorance(t *testing.T) {
	for _, lost := range []bool{true, false} {
		f := newFleet(t, minute, 1)
		f.call(2*limit.Minute, map[string]int{"eu": 0, "us": 0})
		f.call(90*limit.Second, map[string]int{"us": 0}) // a window has begun in the silence of eu
		if lost {
			clear(f.records)
			f.add()
			f.call(5*limit.Second, map[string]int{"us": 1, "eu": 1}, 0)
		} else {
			f.away = true
			f.add()
			f.call(5*limit.Second, map[string]int{"us": 1, "eu": 1})
			f.away = false
		}
		f.call(2*limit.Second, map[string]int{"us": 1, "eu": 1})
		if got := f.get(0); got != 75 {
			t.Errorf("records lost: %t: %d units of the window that began in the silence of eu, want 75", lost, got)
		}
	}
	f := newFleet(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: limit.Day}, 1)
	f.call(limit.Minute, map[string]int{"us": 0, "eu": 0})
	f.add()
	f.call(limit.Minute, map[string]int{"us": 1, "eu": 1}, 0)
	if got := f.get(1); got != 100 {
		t.Errorf("%d units of 100, of a window that began before the first aggregator", got)
	}
}

// A step of the clock that all read hides no silence from an aggregator that runs, whether the one that has set the
// records does or not. The next one that starts goes on with what is set after the step.
func TestSharedClock(t *testing.T) {
	for _, step := range []limit.Micros{-70 * limit.Second, -10 * limit.Minute, -2 * limit.Second, limit.Hour} {
		for _, paused := range [][]int{nil, {0}} {
			f := newFleet(t, minute, 2)
			f.call(2*limit.Minute, map[string]int{"eu": 0, "us": 0})
			f.call(90*limit.Second, map[string]int{"us": 0}) // a window has begun in the silence of eu
			f.ahead += step
			f.call(5*limit.Second, map[string]int{"us": 1}, paused...)
			f.add()
			f.call(limit.Second, map[string]int{"us": 2}, paused...)
			for i := range f.stores[1:] {
				if got := f.get(i + 1); i == 0 && got != 75 || i == 1 && got != 0 {
					t.Errorf("a step of %v s, aggregator %d: %d units of the window that began in the silence of eu, want 75 in all", step/limit.Second, i+1, got)
				}
			}
		}
	}
}

// A record that is set just before such a step is not read by the clock after it.
func TestSharedBeforeStep(t *testing.T) {
	f := newFleet(t, minute, 2)
	f.call(2*limit.Minute, map[string]int{"eu": 0, "us": 0})
	f.pass(1, "eu")
	_ = f.stores[0].Share(t.Context())
	f.ahead -= 70 * limit.Second
	f.call(65*limit.Second, map[string]int{"us": 1})
	if got := f.get(1); got != 75 {
		t.Errorf("%d units of the window that began in the silence of eu, want 75", got)
	}
}

// A damaged record is an error and changes nothing. One of a clock that was set back is silent for ever
// before.
func TestSharedDamage(t *testing.T) {
	f := newFleet(t, minute, 1)
	f.call(2*limit.Minute, map[string]int{"eu": 0, "us": 0})
	f.records["eu"] = []byte("{")
	if err := f.stores[0].Share(t.Context()); err == nil {
		t.Error("a damaged record is accepted")
	}
	f.call(2*limit.Minute, map[string]int{"us": 0})
	if got := f.get(0); got != 75 {
		t.Errorf("%d units, want 75", got)
	}
	f.call(2*limit.Minute, map[string]int{"eu": 0, "us": 0})
	f.ahead -= 10 * limit.Minute
	f.add()
	f.call(limit.Second, map[string]int{"us": 1}, 0)
	if got := f.get(1); got != 0 {
		t.Errorf("%d units of a window in whose beginning all may have been silent, want none", got)
	}
}
