//go:build linux

package region

import (
	"fmt"
	"slices"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/table"
)

// closedLoop measures what a decision costs a service and Redis when requests
// come as fast as they are answered.
func (b *bench) closedLoop() (sections []table.Section) {
	w := b.measure(0)
	for _, l := range b.loads() {
		sections = append(sections, table.Section{Title: fmt.Sprintf("Closed loop, %d connections, %s", conns, l.title), Rows: w.costs(l)})
	}
	return sections
}

// fixedRate measures the same, and how long decisions take, when requests come at
// a rate that all services sustain.
func (b *bench) fixedRate() (sections []table.Section) {
	w := b.measure(slowRate)
	gRPC := w.of(w.empty, b.loads()[0]) // what gRPC itself costs, whatever the load
	beyond := func(m *rig.Mode) measure.Sample { return minus(m.Parts[0], gRPC.Parts[0]) }
	p99 := func(m *rig.Mode) measure.Sample { return m.P99 }
	for _, l := range b.loads() {
		s := table.Section{Title: fmt.Sprintf("%d requests per second, %s", slowRate, l.title)}
		s.Rows = append(w.costs(l),
			w.rows(l, figure{"CPU beyond the empty handler", "µs/decision", beyond, false}, w.others()...)...)
		s.Rows = append(s.Rows, w.rows(l, figure{"p99", "µs", p99, false}, w.all()...)...)
		sections = append(sections, s)
	}
	return sections
}

// ways are the services under every load.
type ways struct {
	*services
	modes []*rig.Mode
}

// measure measures every service under every load, at a rate or, at 0, as fast as they answer.
func (b *bench) measure(rate float64) *ways {
	w, redis := &ways{services: b.start()}, b.redisMeter()
	for i, l := range b.loads() {
		list := w.all()
		if i > 0 { // the empty handler does not look at the load
			list = w.others()
		}
		for _, s := range list {
			m := b.mode(s, l, redis)
			if s == w.weir && l.name == "uniform" {
				m.Settle, m.Rest = b.lease, b.lease
			}
			w.modes = append(w.modes, m)
		}
	}
	b.Turns(w.modes, drive.Pace{Duration: b.round, Rate: rate}, b.turns, b.rounds)
	return w
}

// all are the services, others those that call Redis.
func (s *services) all() []*service    { return append([]*service{s.empty}, s.others()...) }
func (s *services) others() []*service { return []*service{s.theirs, s.cached, s.weir} }

// of is a service under a load; nil: it is not measured.
func (w *ways) of(s *service, l load) *rig.Mode {
	i := slices.IndexFunc(w.modes, func(m *rig.Mode) bool { return m.Name == nameOf(s, l) })
	if i < 0 {
		return nil
	}
	return w.modes[i]
}

// figure is one that is measured of each service.
type figure struct {
	what, unit string
	of         func(*rig.Mode) measure.Sample
	ofRedis    bool // their cache is off then, as by default
}

// rows is a row for each of these services under l that is measured: a figure, beside
// that of the better one of the others.
func (w *ways) rows(l load, f figure, services ...*service) (rows []table.Row) {
	best := f.of(w.of(w.theirs, l))
	if cached := f.of(w.of(w.cached, l)); !f.ofRedis && cached.Median() < best.Median() {
		best = cached
	}
	for _, s := range services {
		if m := w.of(s, l); m != nil {
			rows = append(rows, table.Row{Name: m.Name + ": " + f.what, Unit: f.unit, Value: f.of(m), Peer: best, Note: m.Note()})
		}
	}
	return rows
}

// costs is what a decision cost the services, and how often they called Redis and what
// that cost it.
func (w *ways) costs(l load) []table.Row {
	part := func(i int) func(*rig.Mode) measure.Sample {
		return func(m *rig.Mode) measure.Sample { return m.Parts[i] }
	}
	calls := func(m *rig.Mode) measure.Sample { return m.Counted }
	return slices.Concat(w.rows(l, figure{"CPU of the service", "µs/decision", part(0), false}, w.all()...),
		w.rows(l, figure{"CPU of Redis", "µs/decision", part(1), true}, w.others()...),
		w.rows(l, figure{"calls of Redis", "calls/decision", calls, true}, w.others()...))
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
