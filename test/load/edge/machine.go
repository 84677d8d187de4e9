//go:build linux

package edge

import (
	"fmt"
	"os"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/load/cache"
	"github.com/weirlimit/weir/test/load/table"
)

// machine is how fast the memory of this machine answers: the cache decides what a filter costs.
type machine struct {
	curve     []cache.Point
	cores     []int
	neighbour *cache.Neighbour // nil: none was asked for
}

// littleCache is from when on a machine has little cache: ns per load from 4 MiB. Those with much
// take 20 to 45.
const littleCache = 80

// look measures the memory while nothing else runs.
func (b *bench) look(neighbour bool) {
	var err error
	b.curve, err = cache.Curve(cache.AnyCore)
	b.Must(err)
	if !neighbour {
		return
	}
	b.cores, err = cache.Cores()
	b.Must(err)
	if len(b.cores) < 2 {
		b.Fatalf("a neighbour needs two cores: one for Envoy and itself, one for all else")
	}
	b.neighbour = cache.Calibrate(b, b.cores[len(b.cores)-1])
}

// fourMiB is what a load from 4 MiB costs where Envoy is measured, in ns.
func (m *machine) fourMiB() float64 {
	curve := m.curve
	if m.neighbour != nil {
		curve = m.neighbour.Curve
	}
	for _, p := range curve {
		if p.KiB == cache.SlowKiB {
			return p.Nanos.Median()
		}
	}
	return 0
}

// kind is what the machine counts as, and why.
func (m *machine) kind() (little bool, text string) {
	little, text = m.fourMiB() >= littleCache, "much"
	if little {
		text = "little"
	}
	return little, fmt.Sprintf("%s cache (%.0f ns per load from 4 MiB)", text, m.fourMiB())
}

// sections are the curves.
func (m *machine) sections() []table.Section {
	if m.curve == nil {
		return nil
	}
	alone := table.Section{Title: "The memory: loads that wait for each other, by the size of what they read"}
	for _, p := range m.curve {
		alone.Rows = append(alone.Rows, table.Row{Name: p.String(), Unit: "ns", Value: p.Nanos})
	}
	if m.neighbour == nil {
		return []table.Section{alone}
	}
	beside := table.Section{Title: fmt.Sprintf("The same beside the neighbour, which rests %v; bare is without it", m.neighbour.Rest)}
	for i, p := range m.neighbour.Curve {
		row := table.Row{Name: p.String(), Unit: "ns", Value: p.Nanos, Peer: m.curve[i].Nanos}
		if p.KiB == cache.SlowKiB {
			row.Note = fmt.Sprintf("to be %.0f", cache.SlowNanos)
		}
		beside.Rows = append(beside.Rows, row)
	}
	return []table.Section{alone, beside}
}

// apart keeps all that this program starts from now on, and itself, away from the core of the
// neighbour. It is a no-op without one, as is beside.
func (b *bench) apart() (end func()) {
	if b.neighbour == nil {
		return func() {}
	}
	b.Must(cache.Keep(os.Getpid(), b.cores[:len(b.cores)-1]...))
	return func() { b.Must(cache.Keep(os.Getpid(), b.cores...)) }
}

// beside starts the neighbour, on the core on which these Envoys are kept.
func (b *bench) beside(envoys ...*envoy.Envoy) (end func()) {
	if b.neighbour == nil {
		return func() {}
	}
	for _, e := range envoys {
		b.Must(cache.Keep(e.PID(), b.neighbour.Core))
	}
	return b.neighbour.Start(b)
}
