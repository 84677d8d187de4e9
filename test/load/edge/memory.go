//go:build linux

package edge

import (
	"context"
	"fmt"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/load/table"
)

// memory reads the resident memory of a PoP when it starts and when it holds a
// lease for each of very many keys.
func (b *bench) memory(ctx context.Context) ([]table.Section, error) {
	s := table.Section{Title: "Resident memory"}
	bare, err := b.Bare("memory-bare", b.upstream)
	if err != nil {
		return nil, err
	}
	defer bare.Stop()
	at, err := b.place(ctx, "memory", memoryRules, "/memory/thing")
	if err != nil {
		return nil, err
	}
	defer at.stop()

	atStart, err := b.megabytes(ctx, bare.Process, at.pop.Process, at.region.Process)
	if err != nil {
		return nil, err
	}
	keys, err := b.touch(ctx, at.pop, b.plan.liveKeys)
	if err != nil {
		return nil, err
	}
	full, err := b.megabytes(ctx, bare.Process, at.pop.Process, at.region.Process)
	if err != nil {
		return nil, err
	}
	row := func(name string, mb, bare float64, target table.Target) {
		r := table.Row{Name: name, Unit: "MB", Value: measure.Sample{mb}, Target: target}
		if bare > 0 {
			r.Peer = measure.Sample{bare}
		}
		s.Rows = append(s.Rows, r)
	}
	row("bare Envoy at start", atStart[0], atStart[0], table.Target{})
	row("Weir at start", atStart[1], atStart[0], table.Target{Kind: table.Over, Bound: 100})
	row(fmt.Sprintf("Weir with %d live keys", keys), full[1], full[0],
		table.Target{Kind: table.Over, Bound: 40, Base: measure.Sample{atStart[1]}, BaseName: "Weir at start"})
	if keys < b.plan.liveKeys*99/100 {
		s.Rows[len(s.Rows)-1].Note = fmt.Sprintf("ONLY %d OF %d KEYS in %v", keys, b.plan.liveKeys, longestTouch)
	}
	row("region at start", atStart[2], 0, table.Target{})
	row(fmt.Sprintf("region with %d live keys", keys), full[2], 0, table.Target{})
	return []table.Section{s}, nil
}

// megabytes reads the memory of processes after a rest, in which they give back
// what they needed to start.
func (b *bench) megabytes(ctx context.Context, procs ...*proc.Process) ([]float64, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(3 * time.Second):
	}
	mb := make([]float64, len(procs))
	for i, p := range procs {
		n, err := measure.RSS(p.PID())
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		mb[i] = float64(n) / 1e6
	}
	return mb, nil
}

// longestTouch bounds how long touch may take.
const longestTouch = 90 * time.Second

// touch asks once for each of n keys and returns how many were admitted in time.
func (b *bench) touch(ctx context.Context, pop *envoy.Envoy, n int64) (int64, error) {
	client, err := drive.Dial(pop.Addr, "/memory/thing", drive.Each(), memoryConns)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	r, err := client.Run(ctx, drive.Pace{Duration: longestTouch, Requests: n})
	if err != nil {
		return 0, err
	}
	if r.Status[answered] < r.Done*99/100 {
		return 0, fmt.Errorf("of %d keys only %d were admitted, %d refused", r.Done, r.Status[answered], r.Status[refused])
	}
	return r.Status[answered], ctx.Err()
}
