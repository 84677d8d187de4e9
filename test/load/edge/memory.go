//go:build linux

package edge

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/load/table"
)

// memory reads the resident memory of a PoP when it starts and when it holds a
// lease for each of very many keys, and how long it takes to start.
func (b *bench) memory() []table.Section {
	bare := b.startBare("memory-bare")
	defer bare.Stop()
	at := b.place("memory", memoryRules, "/memory/thing")
	defer at.stop()

	bareStart, start := b.megabytes(bare, at.pop)
	keys := b.touch(at.pop)
	bareFull, full := b.megabytes(bare, at.pop)
	row := func(name string, value, bare measure.Sample, target table.Target) table.Row {
		return table.Row{Name: name, Unit: "MB", Value: value, Peer: bare, Target: target}
	}
	rows := []table.Row{
		row("bare Envoy at start", bareStart, bareStart, table.Target{}),
		row("Weir at start", start, bareStart, table.Target{Kind: table.Over, Bound: 80}),
		row(fmt.Sprintf("Weir with %d live keys", keys), full, bareFull,
			table.Target{Kind: table.Over, Bound: 40, Base: start, BaseName: "Weir at start"}),
	}
	if keys < b.liveKeys*99/100 {
		rows[2].Note = fmt.Sprintf("ONLY %d OF %d KEYS in %v", keys, b.liveKeys, longestTouch)
	}
	bareReady, ready := b.ready(bare, at.pop)
	return []table.Section{{Title: "Resident memory", Rows: rows}, {Title: "From the start of Envoy until it is ready", Rows: []table.Row{
		{Name: "bare Envoy", Unit: "s", Value: bareReady, Peer: bareReady},
		{Name: "Weir", Unit: "s", Value: ready, Peer: bareReady, Target: table.Target{Kind: table.AtMost, Bound: 1.2}},
	}}}
}

// ready starts two Envoys again, in turns, and reads how long each takes until it is ready.
func (b *bench) ready(one, two *envoy.Envoy) (ones, twos measure.Sample) {
	again := func(e *envoy.Envoy) float64 {
		e.Stop()
		begin := time.Now()
		e.Start()
		return time.Since(begin).Seconds()
	}
	for range b.starts {
		ones, twos = append(ones, again(one)), append(twos, again(two))
	}
	return ones, twos
}

// megabytes reads the memory of two Envoys after a rest, in which they give back
// what they needed to start.
func (b *bench) megabytes(one, two *envoy.Envoy) (_, _ measure.Sample) {
	b.Wait(3 * time.Second)
	return measure.Sample{float64(one.Memory()) / 1e6}, measure.Sample{float64(two.Memory()) / 1e6}
}

const (
	longestTouch = 90 * time.Second // how long touch may take
	memoryConns  = 256
)

// touch asks once for each live key and returns how many were admitted in time.
func (b *bench) touch(pop *envoy.Envoy) int64 {
	client, err := drive.Dial(pop.Addr, "/memory/thing", drive.Each(), memoryConns)
	b.Must(err)
	defer client.Close()
	r, err := client.Run(b.Ctx, drive.Pace{Duration: longestTouch, Requests: b.liveKeys})
	b.Must(err)
	b.Must(b.Ctx.Err())
	if r.OK() < r.Done*99/100 {
		b.Fatalf("of %d keys only %d were admitted, %d refused", r.Done, r.OK(), r.Status[refused])
	}
	return r.OK()
}
