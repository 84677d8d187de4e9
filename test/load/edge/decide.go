//go:build linux

package edge

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/table"
)

const (
	openConns    = 64
	pathRate     = 20_000 // requests per second of the whole path
	zipfExponent = 0.99   // YCSB's
)

// fixedRate measures latency at a third of the rate that bare Envoy reaches. The Envoys have a core, and the driver and the
// regions have the other one.
func (b *bench) fixedRate() []table.Section {
	bare, filters := b.alike("fixed")
	uniform := drive.Uniform(b.keys, 2)
	ms := modes{bench: b, keys: b.keys}
	peer := ms.add("bare Envoy", bare, "/one/thing", uniform, answered)
	for _, f := range filters {
		ms.weir(f.name+", one rule, many keys", f.one, "/one/thing", uniform, answered, "one")
	}
	defer b.pin("0-1", os.Getpid())
	b.pin("0", os.Getpid())
	b.pin("1", bare.Process.PID())
	for _, f := range filters {
		b.pin("1", f.one.pop.Process.PID())
		b.pin("0", f.one.region.Process.PID())
	}
	reached := b.WarmUp(&peer.Mode, drive.Pace{Duration: b.warm})
	rate := float64(reached.Done) / reached.Elapsed.Seconds() / 3
	ms.run(drive.Pace{Duration: b.fixedRound, Rate: rate}, b.fixedRounds)
	section := table.Section{Title: fmt.Sprintf("Envoy answers itself, open loop, %.0f requests per second", rate)}
	for _, m := range ms.all {
		section.Rows = append(section.Rows, m.row(peer.CPU),
			table.Row{Name: m.Name + ", p50", Unit: "µs", Value: m.P50, Peer: peer.P50},
			table.Row{Name: m.Name + ", p99", Unit: "µs", Value: m.P99, Peer: peer.P99})
	}
	return []table.Section{section}
}

// pin has all threads of a process run on these cores, where there are several.
func (b *bench) pin(cores string, pid int) {
	if runtime.NumCPU() > 1 {
		b.Must(exec.CommandContext(b.Ctx, "taskset", "-acp", cores, strconv.Itoa(pid)).Run())
	}
}

// twoWorkers measures Envoys whose two workers use the same keys at once.
func (b *bench) twoWorkers() []table.Section {
	b.workers = 2
	defer func() { b.workers = 1 }()
	bare, filters := b.alike("two")
	many := drive.Uniform(b.keys, 1)
	ms := modes{bench: b, keys: b.keys}
	peer := ms.add("bare Envoy", bare, "/one/thing", many, answered)
	for _, f := range filters {
		ms.weir(f.name+", one rule, one key", f.one, "/one-hot/thing", drive.Hot(), answered, "one-hot")
		ms.weir(f.name+", one rule, many keys", f.one, "/one/thing", many, answered, "one")
	}
	ms.run(drive.Pace{Duration: b.round}, b.rounds)
	section := table.Section{Title: "Envoy answers itself, two workers, closed loop: CPU of Envoy"}
	for _, m := range ms.all {
		section.Rows = append(section.Rows, m.row(peer.CPU))
	}
	return []table.Section{section}
}

// wholePath measures Envoy and the region together, with the leases of everyday
// use.
func (b *bench) wholePath() []table.Section {
	direct, at := b.pop("bare", func(e *envoy.Bootstrap) { e.SetFilter(nil) }), b.place("path", pathRules, "/uniform/thing")
	flat := drive.Uniform(b.keys, 3)
	ms := modes{bench: b, keys: b.keys}
	bare := ms.add("bare Envoy", direct, "/uniform/thing", flat, answered)
	uniform := ms.weir("Weir, uniform keys", at, "/uniform/thing", flat, answered, "uniform")
	zipf := ms.weir("Weir, Zipf", at, "/zipf/thing", drive.Zipf(int(b.keys), zipfExponent, 3), 0, "zipf")

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
	waited := table.Row{Name: "Weir, Zipf: decisions that waited", Unit: "%", Note: zipf.row(bare.CPU).Note}
	if zipf.traffic.decisions > 0 { // else it was not measured
		waited.Value = measure.Sample{zipf.traffic.waited()}
	}
	return []table.Section{{Title: "Whole path (Envoy + region), 20,000 requests per second offered, limit 1000/1m", Rows: []table.Row{
		bare.row(bare.CPU), uniform.row(bare.CPU),
		{Name: uniform.Name + ": of that the region", Unit: "µs/req", Value: uniform.Parts[1]},
		waited,
	}}}
}
