//go:build linux

package edge

import (
	"fmt"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/table"
)

const (
	closedConns  = 32
	openConns    = 64
	fixedRate    = 5_000  // requests per second, where everything costs more
	pathRate     = 20_000 // requests per second of the whole path
	zipfExponent = 0.99   // YCSB's
)

// closedLoop measures what a decision costs when requests come as fast as they
// are answered.
func (b *bench) closedLoop() []table.Section {
	uniform, hot := drive.Uniform(b.keys, 1), drive.Hot()
	ms := modes{bench: b, keys: b.keys, conns: closedConns}
	bare := ms.add("bare Envoy", b.bare, "/one/thing", uniform, answered)
	ms.add("local_ratelimit, allowing", b.local, "/one/thing", uniform, answered)
	rejecting := ms.add("local_ratelimit, rejecting", b.rejecting, "/one/thing", uniform, rejected)

	one := table.Target{Kind: table.Over, Bound: 8}
	three := table.Target{Kind: table.Over, Bound: 12}
	var denials []*mode
	for _, f := range b.filters {
		ms.weir(f.name+", no rule matches", f.one, "/none/thing", uniform, answered)
		ms.weir(f.name+", one rule, many keys", f.one, "/one/thing", uniform, answered, "one").target = one
		ms.weir(f.name+", one rule, one key", f.one, "/one-hot/thing", hot, answered, "one-hot").target = one
		ms.weir(f.name+", three rules, many keys", f.three, "/three/thing", uniform, answered,
			"user", "address", "total").target = three
		ms.weir(f.name+", three rules, one key", f.three, "/three-hot/thing", hot, answered,
			"user-hot", "address-hot", "total-hot").target = three
		denials = append(denials,
			ms.weir(f.name+", rejected, many keys", f.one, "/rejected/thing", uniform, rejected, "rejected"),
			ms.weir(f.name+", rejected, one key", f.one, "/rejected-hot/thing", hot, rejected, "rejected-hot"))
	}
	ms.run(drive.Pace{Duration: b.round}, b.rounds)
	for _, m := range denials {
		m.target = table.Target{Kind: table.Times, Bound: 1.15, Base: rejecting.CPU, BaseName: rejecting.Name}
	}
	s := table.Section{Title: fmt.Sprintf("Closed loop, %d connections, %d keys or one: CPU of Envoy", closedConns, b.keys)}
	s.Steady = []measure.Sample{bare.CPU}
	for _, m := range ms.all {
		s.Rows = append(s.Rows, m.row(bare.CPU))
	}
	return []table.Section{s}
}

// fixedRate measures the same at a modest rate, where Envoy wakes for nearly
// every request and everything costs more.
func (b *bench) fixedRate() []table.Section {
	uniform := drive.Uniform(b.keys, 2)
	ms := modes{bench: b, keys: b.keys, conns: openConns}
	bare := ms.add("bare Envoy", b.bare, "/one/thing", uniform, answered)
	rows := []*mode{bare}
	for _, f := range b.filters {
		weir := ms.weir(f.name+", one rule, many keys", f.one, "/one/thing", uniform, answered, "one")
		weir.target = table.Target{Kind: table.Times, Bound: 1.6}
		rows = append(rows, weir)
	}
	ms.run(drive.Pace{Duration: b.fixedRound, Rate: fixedRate}, b.fixedRounds)
	section := table.Section{Title: "Open loop, 5,000 requests per second"}
	for _, m := range rows {
		p99 := table.Row{Name: m.Name + ", p99", Unit: "µs", Value: m.P99, Peer: bare.P99}
		if m != bare {
			p99.Target = table.Target{Kind: table.Times, Bound: 1.3}
		}
		section.Rows = append(section.Rows, m.row(bare.CPU), p99)
	}
	return []table.Section{section}
}

// wholePath measures Envoy and the region together, with the leases of everyday
// use.
func (b *bench) wholePath() []table.Section {
	at := b.place("path", pathRules, "/uniform/thing")
	defer at.stop()
	flat := drive.Uniform(b.keys, 3)
	ms := modes{bench: b, keys: b.keys, conns: openConns}
	bare := ms.add("bare Envoy", b.bare, "/uniform/thing", flat, answered)
	uniform := ms.weir("Weir, uniform keys", at, "/uniform/thing", flat, answered, "uniform")
	zipf := ms.weir("Weir, Zipf", at, "/zipf/thing", drive.Zipf(int(b.keys), zipfExponent, 3), 0, "zipf")
	uniform.target = table.Target{Kind: table.Times, Bound: 2}

	load := drive.Pace{Duration: b.chunk, Rate: pathRate}
	for _, m := range []*mode{uniform, zipf} {
		b.Round(&bare.Mode, load) // before each and after: what bare costs now
		m.Meters = append(m.Meters, rig.MeterOf(at.region.Process))
		b.WarmUp(&m.Mode, drive.Pace{Duration: b.settle, Rate: pathRate})
		before := b.asked(m)
		for range b.chunks {
			b.Round(&m.Mode, load)
		}
		m.traffic = b.asked(m).since(before)
	}
	b.Round(&bare.Mode, load)
	waited := table.Row{Name: "Weir, Zipf: decisions that waited", Unit: "%", Target: table.Target{Kind: table.AtMost, Bound: 5}, Note: zipf.row(bare.CPU).Note}
	if zipf.traffic.decisions > 0 { // else it was not measured
		waited.Value = measure.Sample{zipf.traffic.waited()}
	}
	return []table.Section{{Title: "Whole path (Envoy + region), 20,000 requests per second offered, limit 1000/1m", Rows: []table.Row{
		bare.row(bare.CPU), uniform.row(bare.CPU),
		{Name: uniform.Name + ": of that the region", Unit: "µs/req", Value: uniform.Parts[1]},
		waited,
	}}}
}
