//go:build linux

package region

import (
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/load/table"
)

// traceLimit is the limit of the boundary traces, per minute.
const traceLimit = 1000

// accuracy is what each algorithm admits in the worst minute of two traces: all
// that clients can send at the end of a window and again right after it begins
// anew; and at the end of a window and at the end of the next.
func accuracy() ([]table.Section, error) {
	s := table.Section{Title: "Accuracy: admitted in the worst trailing window, by trace"}
	for _, a := range []struct {
		name string
		spec limit.Spec
		most float64 // of the limit, by what its documentation derives
	}{
		{"token bucket", limit.Spec{Algorithm: limit.TokenBucket}, 2},
		{"token bucket, burst a tenth of the limit", limit.Spec{Algorithm: limit.TokenBucket, Burst: traceLimit / 10}, 1.1},
		{"fixed window", limit.Spec{Algorithm: limit.FixedWindow}, 2},
		{"sliding window", limit.Spec{Algorithm: limit.SlidingWindow}, 2},
		{"sliding log", limit.Spec{Algorithm: limit.SlidingLog}, 1},
	} {
		a.spec.Count, a.spec.Period = traceLimit, limit.Minute
		l, err := limit.New(a.spec)
		if err != nil {
			return nil, err
		}
		for _, trace := range []struct {
			name   string
			bursts []limit.Micros // each of twice the limit, a unit each microsecond
		}{
			{"round a flip", []limit.Micros{limit.Minute - 2*traceLimit, limit.Minute}},
			{"from end to end", []limit.Micros{limit.Minute - 2*traceLimit, 2*limit.Minute - 4*traceLimit}},
		} {
			s.Rows = append(s.Rows, table.Row{Name: a.name + ", " + trace.name, Unit: "of L",
				Value: measure.Sample{worst(l, trace.bursts)}, Target: table.Target{Kind: table.AtMost, Bound: a.most}})
		}
	}
	return []table.Section{s}, nil
}

// worst replays bursts on a new counter and returns the most that was admitted
// within a trailing period, as a share of the limit.
func worst(l *limit.Limit, bursts []limit.Micros) float64 {
	var st limit.State
	var at []limit.Micros // of each unit that was admitted
	first, most := 0, 0
	for _, begin := range bursts {
		for i := range limit.Micros(2 * traceLimit) {
			now := limit.Day + begin + i
			var d limit.Decision
			if st, d = l.Acquire(st, now, limit.Ask{Need: 1, Waiting: 1, Want: 1}); d.Granted == 0 {
				continue
			}
			at = append(at, now)
			for at[first] <= now-l.Spec().Period {
				first++
			}
			most = max(most, len(at)-first)
		}
	}
	return float64(most) / float64(l.Spec().Count)
}
