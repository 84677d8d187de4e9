package regions_test

import (
	"context"
	"errors"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter/regions"
	"github.com/weirlimit/weir/internal/telemetry"
)

// fleet is aggregators on one store, of which each region calls one.
type fleet struct {
	*weighed
	stores  []*regions.Store
	records map[string][]byte // what they exchange
	away    bool              // nothing is exchanged
	ahead   limit.Micros      // the clock that all read, of that of the test
}

func newFleet(t *testing.T, s limit.Spec, n int) *fleet {
	t.Helper()
	f := &fleet{weighed: newWeighed(t, s), records: map[string][]byte{}, ahead: limit.Hour}
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

// exchange takes 2 ms of the 500 between two exchanges.
func (f *fleet) exchange(_ context.Context, names []string, records [][]byte) (limit.Micros, [][]byte, error) {
	if f.away {
		return 0, nil, errors.New("redis is away")
	}
	f.now += limit.Millisecond
	now, all := f.now+f.ahead, make([][]byte, len(names))
	for i, name := range names {
		if len(records[i]) > 0 {
			f.records[name] = records[i]
		}
		all[i] = f.records[name]
	}
	f.now += limit.Millisecond
	return now, all, nil
}

// call lets the time pass, in which regions call these aggregators.
func (f *fleet) call(d limit.Micros, which map[string]int) {
	for ends := f.now + d; f.now < ends; {
		for region, i := range which {
			f.store = f.stores[i]
			f.pass(1, region)
			f.now -= limit.Second / 2
		}
		for _, s := range f.stores {
			_ = s.Share(f.t.Context(), f.exchange) // an error is one of the test
		}
		f.now += limit.Second / 2
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

// An aggregator that starts goes on with the silences that another one has shared, whatever happens to the
// exchange afterwards.
func TestSharedTakeover(t *testing.T) {
	f := newFleet(t, minute, 1)
	f.call(2*limit.Minute, map[string]int{"eu": 0, "us": 0})
	f.call(90*limit.Second, map[string]int{"us": 0}) // a window has begun in the silence of eu
	f.call(10*limit.Second, map[string]int{"us": 0, "eu": 0})
	f.add()
	f.call(limit.Second, nil)
	f.away = true
	f.call(2*limit.Second, map[string]int{"us": 1, "eu": 1})
	if got := f.get(1); got != 75 {
		t.Errorf("%d units of the window that began in the silence of eu, want 75", got)
	}
}

// Records that are damaged, or of a clock that was set back, hide no silence, and an aggregator without any
// goes on as one that is alone.
func TestSharedDamage(t *testing.T) {
	f := newFleet(t, minute, 1)
	f.call(2*limit.Minute, map[string]int{"eu": 0, "us": 0})
	f.records["eu"] = []byte("{")
	if err := f.stores[0].Share(t.Context(), f.exchange); err == nil {
		t.Error("a damaged record is accepted")
	}
	f.call(2*limit.Minute, map[string]int{"us": 0})
	if got := f.get(0); got != 75 {
		t.Errorf("%d units, want 75", got)
	}
	f.call(2*limit.Minute, map[string]int{"eu": 0, "us": 0})
	f.ahead -= 10 * limit.Minute
	f.add()
	f.call(limit.Second, nil)
	f.call(limit.Second, map[string]int{"us": 1})
	if got := f.get(1); got != 0 {
		t.Errorf("%d units of a window in whose beginning all may have been silent, want none", got)
	}
}
