//go:build linux

package edge

import (
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/load/table"
)

// memory reads the resident memory of a PoP when it starts, and how long it takes to start. What its keys take
// is measured with a release.
func (b *bench) memory() []table.Section {
	bare := b.startBare("memory-bare")
	defer bare.Stop()
	at := b.place("memory", oneRule, "/one/thing")
	defer at.stop()

	b.Wait(3 * time.Second) // they give back what they needed to start
	bareStart, start := megabytes(bare), megabytes(at.pop)
	bareReady, ready := b.ready(bare, at.pop)
	return []table.Section{{Title: "Resident memory at the start", Rows: []table.Row{
		{Name: "bare Envoy", Unit: "MB", Value: bareStart, Peer: bareStart},
		{Name: "Weir", Unit: "MB", Value: start, Peer: bareStart, Target: table.Target{Kind: table.Over, Bound: 80}},
	}}, {Title: "From the start of Envoy until it is ready", Rows: []table.Row{
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

func megabytes(e *envoy.Envoy) measure.Sample { return measure.Sample{float64(e.Memory()) / 1e6} }
