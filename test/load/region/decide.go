//go:build linux

package region

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/load/loadgen"
	"github.com/weirlimit/weir/test/load/round"
	"github.com/weirlimit/weir/test/load/table"
)

// closedLoop measures what a decision costs a service and Redis when requests
// come as fast as they are answered.
func (b *bench) closedLoop(ctx context.Context) ([]table.Section, error) {
	w, err := b.turns(ctx, loadgen.Load{Duration: b.plan.round}, b.plan.turns, true)
	if err != nil {
		return nil, err
	}
	var sections []table.Section
	for _, l := range b.loads() {
		s := table.Section{Title: fmt.Sprintf("Closed loop, %d connections, %s", conns, l.title)}
		service := table.Target{Kind: table.Times, Bound: 0.5}
		// Their cache keeps all denials of a window from Redis, and is off unless asked for.
		redis := table.Target{Kind: table.Times, Bound: 0.05, BaseName: "theirs without cache",
			Base: w.of(b.services.theirs, l).Parts[1]}
		if l.name == "uniform" {
			redis.Bound = 0.5
		}
		s.Rows = append(s.Rows, w.costs(l, 0, "CPU of the service", 0, service)...)
		s.Rows = append(s.Rows, b.redis.idleRow())
		s.Rows = append(s.Rows, w.costs(l, 1, "CPU of Redis", 0, redis)...)
		s.Rows = append(s.Rows, w.calls(l)...)
		sections = append(sections, s)
	}
	return sections, b.profile(ctx, w, "closed", 0)
}

// fixedRate measures the same, and how long decisions take, when requests come at
// a rate that all services sustain.
func (b *bench) fixedRate(ctx context.Context, rate float64) ([]table.Section, error) {
	turns, half, notWorse := b.plan.turns, table.Target{Kind: table.Times, Bound: 0.5}, table.Target{Kind: table.Times, Bound: 1}
	if rate != slowRate { // the aims are for that one
		turns, half, notWorse = 1, table.Target{}, table.Target{}
	}
	w, err := b.turns(ctx, loadgen.Load{Duration: b.plan.fixed, Rate: rate}, turns, false)
	if err != nil {
		return nil, err
	}
	var sections []table.Section
	for _, l := range b.loads() {
		s := table.Section{Title: fmt.Sprintf("%.0f requests per second, %s", rate, l.title)}
		s.Rows = append(s.Rows, w.costs(l, 0, "CPU of the service", rate, table.Target{})...)
		s.Rows = append(s.Rows, w.excess(l, half)...)
		s.Rows = append(s.Rows, b.redis.idleRow())
		s.Rows = append(s.Rows, w.costs(l, 1, "CPU of Redis", rate, table.Target{})...)
		s.Rows = append(s.Rows, w.calls(l)...)
		s.Rows = append(s.Rows, w.latency(l, notWorse)...)
		sections = append(sections, s)
	}
	return sections, b.profile(ctx, w, fmt.Sprintf("%.0f", rate), rate)
}

// turns measures every service under every load, in so many turns; withCache as
// for ways.
func (b *bench) turns(ctx context.Context, load loadgen.Load, turns int, withCache bool) (*ways, error) {
	if _, err := b.start(ctx); err != nil {
		return nil, err
	}
	if err := b.redis.measureIdle(ctx, time.Second); err != nil {
		return nil, err
	}
	w, err := b.ways(withCache)
	if err != nil {
		return nil, err
	}
	return w, round.Turns(ctx, w.all, load, turns, b.plan.rounds)
}

// costs is a row for each service under l: what a decision cost one of its parts,
// beside that of the better one of the others, which Weir's target refers to.
func (w *ways) costs(l load, part int, what string, rate float64, target table.Target) (rows []table.Row) {
	s := w.b.services
	best := w.best(l, func(m *round.Mode) measure.Sample { return m.Parts[part] })
	for _, by := range []*service{s.empty, s.theirs, s.cached, s.weir} {
		m := w.of(by, l)
		if m == nil || by == s.empty && part > 0 {
			continue
		}
		row := table.Row{Name: m.Name + ": " + what, Unit: "µs/decision", Value: m.Parts[part], Peer: best, Note: m.Note(rate)}
		if by == s.weir {
			row.Target = target
		}
		rows = append(rows, row)
	}
	return rows
}

// calls is how often each service called Redis for a decision.
func (w *ways) calls(l load) (rows []table.Row) {
	s := w.b.services
	best := w.best(l, func(m *round.Mode) measure.Sample { return m.Counted })
	for _, by := range []*service{s.theirs, s.cached, s.weir} {
		if m := w.of(by, l); m != nil {
			rows = append(rows, table.Row{Name: m.Name + ": calls of Redis", Unit: "calls/decision", Value: m.Counted, Peer: best})
		}
	}
	return rows
}

// best is the smaller of what was measured of the others.
func (w *ways) best(l load, of func(*round.Mode) measure.Sample) (best measure.Sample) {
	for _, by := range []*service{w.b.services.theirs, w.b.services.cached} {
		if m := w.of(by, l); m != nil && (best == nil || of(m).Median() < best.Median()) {
			best = of(m)
		}
	}
	return best
}

// excess is what a decision costs a service beyond what gRPC itself costs, which
// the empty handler shows.
func (w *ways) excess(l load, target table.Target) []table.Row {
	s := w.b.services
	gRPC := w.of(s.empty, w.b.loads()[0]) // it does not look at the load
	over := func(m *round.Mode) measure.Sample { return minus(m.Parts[0], gRPC.Parts[0]) }
	best := w.best(l, over)
	var rows []table.Row
	for _, by := range []*service{s.theirs, s.cached, s.weir} {
		m := w.of(by, l)
		if m == nil {
			continue
		}
		row := table.Row{Name: m.Name + ": of that beyond the empty handler", Unit: "µs/decision", Value: over(m), Peer: best}
		if by == s.weir {
			row.Target = target
		}
		rows = append(rows, row)
	}
	return rows
}

// minus is the difference of two samples of the same length by rank: the smallest
// from the smallest, the median from the median. Rounds of two services are not at
// the same time, so what disturbed one says nothing of the other.
func minus(a, b measure.Sample) measure.Sample {
	d := slices.Sorted(slices.Values(a))
	for i, x := range slices.Sorted(slices.Values(b)) {
		d[i] -= x
	}
	return d
}

// latency is what each service's clients wait for an answer.
func (w *ways) latency(l load, p99 table.Target) (rows []table.Row) {
	s := w.b.services
	for _, q := range []struct {
		name   string
		of     func(*round.Mode) measure.Sample
		target table.Target
	}{
		{"p50", func(m *round.Mode) measure.Sample { return m.P50 }, table.Target{}},
		{"p99", func(m *round.Mode) measure.Sample { return m.P99 }, p99},
	} {
		best := w.best(l, q.of)
		for _, by := range []*service{s.empty, s.theirs, s.cached, s.weir} {
			m := w.of(by, l)
			if m == nil {
				continue
			}
			row := table.Row{Name: m.Name + ": " + q.name, Unit: "µs", Value: q.of(m), Peer: best}
			if by == s.weir {
				row.Target = q.target
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// profileTime is how long a service is profiled under each load.
const profileTime = 5 * time.Second

// profile writes CPU profiles of Weir's service under each load, where wanted.
func (b *bench) profile(ctx context.Context, w *ways, name string, rate float64) error {
	if b.Profile == "" || b.services.weir == nil {
		return nil
	}
	for _, l := range b.loads() {
		m := w.of(b.services.weir, l)
		taken := make(chan error, 1)
		go func() {
			data, err := b.services.region.Profile(ctx, int(profileTime.Seconds()))
			if err == nil {
				err = os.WriteFile(filepath.Join(b.Profile, name+"-"+l.name+".pprof"), data, 0o644)
			}
			taken <- err
		}()
		err := m.WarmUp(ctx, loadgen.Load{Duration: profileTime + time.Second, Rate: rate})
		if err2 := <-taken; err2 != nil {
			return err2
		}
		if err != nil {
			return err
		}
	}
	return nil
}
