//go:build linux

package region

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/load/round"
	"github.com/weirlimit/weir/test/load/table"
)

// closedLoop measures what a decision costs a service and Redis when requests
// come as fast as they are answered.
func (b *bench) closedLoop(ctx context.Context) ([]table.Section, error) {
	w, err := b.turns(ctx, drive.Pace{Duration: b.plan.round}, b.plan.turns, true)
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
		s.Rows = w.costs(l, 0, table.Target{}, service, redis)
		sections = append(sections, s)
	}
	return sections, nil
}

// fixedRate measures the same, and how long decisions take, when requests come at
// a rate that all services sustain.
func (b *bench) fixedRate(ctx context.Context, rate float64) ([]table.Section, error) {
	turns, half, notWorse := b.plan.turns, table.Target{Kind: table.Times, Bound: 0.5}, table.Target{Kind: table.Times, Bound: 1}
	if rate != slowRate { // the aims are for that one
		turns, half, notWorse = 1, table.Target{}, table.Target{}
	}
	w, err := b.turns(ctx, drive.Pace{Duration: b.plan.fixed, Rate: rate}, turns, false)
	if err != nil {
		return nil, err
	}
	var sections []table.Section
	for _, l := range b.loads() {
		s := table.Section{Title: fmt.Sprintf("%.0f requests per second, %s", rate, l.title)}
		s.Rows = append(w.costs(l, rate, half, table.Target{}, table.Target{}), w.latency(l, notWorse)...)
		sections = append(sections, s)
	}
	return sections, nil
}

// turns measures every service under every load, in so many turns; withCache as
// for ways.
func (b *bench) turns(ctx context.Context, load drive.Pace, turns int, withCache bool) (*ways, error) {
	if _, err := b.start(); err != nil {
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

// figure is one that is measured of each service.
type figure struct {
	what, unit string
	of         func(*round.Mode) measure.Sample
	target     table.Target // of Weir
	note       func(*round.Mode) string
}

// rows is a row for each of these services under l that is measured: a figure, beside
// that of the better one of the others.
func (w *ways) rows(l load, f figure, services ...*service) (rows []table.Row) {
	best := w.best(l, f.of)
	for _, s := range services {
		m := w.of(s, l)
		if m == nil {
			continue
		}
		row := table.Row{Name: m.Name + ": " + f.what, Unit: f.unit, Value: f.of(m), Peer: best}
		if f.note != nil {
			row.Note = f.note(m)
		}
		if s == w.b.services.weir {
			row.Target = f.target
		}
		rows = append(rows, row)
	}
	return rows
}

// costs is what a decision cost the services, and how often they called Redis and what
// that cost it. rate is that of an open loop, else 0.
func (w *ways) costs(l load, rate float64, beyond, service, redis table.Target) []table.Row {
	s := w.b.services
	note := func(m *round.Mode) string { return m.Note(rate) }
	rows := w.rows(l, figure{"CPU of the service", "µs/decision", part(0), service, note}, s.empty, s.theirs, s.cached, s.weir)
	if rate > 0 {
		rows = append(rows, w.rows(l, figure{"of that beyond the empty handler", "µs/decision", w.excess(), beyond, nil}, s.theirs, s.cached, s.weir)...)
	}
	rows = append(rows, w.b.redis.idleRow())
	rows = append(rows, w.rows(l, figure{"CPU of Redis", "µs/decision", part(1), redis, note}, s.theirs, s.cached, s.weir)...)
	calls := func(m *round.Mode) measure.Sample { return m.Counted }
	return append(rows, w.rows(l, figure{"calls of Redis", "calls/decision", calls, table.Target{}, nil}, s.theirs, s.cached, s.weir)...)
}

func part(i int) func(*round.Mode) measure.Sample {
	return func(m *round.Mode) measure.Sample { return m.Parts[i] }
}

// excess is what a decision costs a service beyond what gRPC itself costs, which
// the empty handler shows.
func (w *ways) excess() func(*round.Mode) measure.Sample {
	gRPC := w.of(w.b.services.empty, w.b.loads()[0]) // it does not look at the load
	return func(m *round.Mode) measure.Sample { return minus(m.Parts[0], gRPC.Parts[0]) }
}

// latency is what each service's clients wait for an answer.
func (w *ways) latency(l load, p99 table.Target) []table.Row {
	s := w.b.services
	at50 := func(m *round.Mode) measure.Sample { return m.P50 }
	at99 := func(m *round.Mode) measure.Sample { return m.P99 }
	return append(w.rows(l, figure{"p50", "µs", at50, table.Target{}, nil}, s.empty, s.theirs, s.cached, s.weir),
		w.rows(l, figure{"p99", "µs", at99, p99, nil}, s.empty, s.theirs, s.cached, s.weir)...)
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

// minus is the difference of two samples of the same length by rank: the smallest
// from the smallest, the median from the median. Rounds of two services are not at
// the same time, so what disturbed one did not disturb the other.
func minus(a, b measure.Sample) measure.Sample {
	d := slices.Sorted(slices.Values(a))
	for i, x := range slices.Sorted(slices.Values(b)) {
		d[i] -= x
	}
	return d
}
