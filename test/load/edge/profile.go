//go:build linux

package edge

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/load/table"
)

// profileTime is how long a process is sampled, about a thousand times a second.
const profileTime = 3 * time.Second

// profileModes shows where the CPU time of each mode went: a table of the
// difference to bare, by place.
func (b *bench) profileModes(ctx context.Context, all []*mode, bare *mode) (table.Section, error) {
	s := table.Section{Title: "Profile of Envoy in the closed loop"}
	rows := map[*mode][]table.Row{}
	for _, m := range all {
		p, err := b.sample(ctx, m, drive.Pace{Duration: profileTime + time.Second}, m.envoy.Process)
		if err != nil {
			return s, err
		}
		rows[m] = placeRows(m, p)
	}
	for _, m := range all {
		for i, r := range rows[m] {
			r.Peer = rows[bare][i].Value
			if r.Peer.Min() > 0 || r.Value.Min() > 0 {
				s.Rows = append(s.Rows, r)
			}
		}
	}
	return s, nil
}

// placeRows spreads the mode's median cost over the places of its profile.
func placeRows(m *mode, p measure.Profile) []table.Row {
	row := func(place string, samples int) table.Row {
		share := float64(samples) / float64(max(p.Samples, 1))
		return table.Row{Name: m.Name + ": " + place, Unit: "µs/req",
			Value: measure.Sample{share * m.CPU.Median()}, Note: fmt.Sprintf("%.0f %%", 100*share)}
	}
	return []table.Row{
		row("Envoy", p.Rest),
		row("kernel", p.Kernel),
		row("wasm code", p.Wasm),
		row("host functions called by wasm", p.Host),
	}
}

// profileRegion names the functions in which a region spends its time.
func (b *bench) profileRegion(ctx context.Context, m *mode, at *place) (table.Section, error) {
	s := table.Section{Title: "Profile of the region, " + m.Name}
	p, err := b.sample(ctx, m, drive.Pace{Duration: profileTime + time.Second, Rate: pathRate}, at.region.Process)
	if err != nil {
		return s, err
	}
	for _, name := range p.Top(15) {
		s.Rows = append(s.Rows, table.Row{Name: name, Unit: "%",
			Value: measure.Sample{100 * float64(p.Leaves[name]) / float64(p.Samples)}})
	}
	return s, nil
}

// sample runs a load and samples a process meanwhile, by the clock of the CPU:
// hardware counters are rarely there on virtual machines.
func (b *bench) sample(ctx context.Context, m *mode, load drive.Pace, of *proc.Process) (measure.Profile, error) {
	data := filepath.Join(b.Dir, "perf.data")
	record := exec.CommandContext(ctx, "perf", "record", "-q", "-e", "cpu-clock", "-F", "999", "-g",
		"-p", strconv.Itoa(of.PID()), "-o", data, "--", "sleep", fmt.Sprint(profileTime.Seconds()))
	if err := record.Start(); err != nil {
		return measure.Profile{}, fmt.Errorf("profile: %w; install perf (Debian: linux-perf)", err)
	}
	err := m.WarmUp(ctx, load)
	if waitErr := record.Wait(); err == nil && waitErr != nil {
		err = fmt.Errorf("profile: perf record: %w", waitErr)
	}
	if err != nil {
		return measure.Profile{}, err
	}
	text, err := exec.CommandContext(ctx, "perf", "script", "-i", data, "-F", "ip,sym,dso").Output()
	if err != nil {
		return measure.Profile{}, fmt.Errorf("profile: perf script: %w", err)
	}
	return measure.ParsePerfScript(string(text)), nil
}
