//go:build linux

package rig

import (
	"runtime"
	"time"

	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/load/table"
)

// quietShare is the per cent of the machine's CPU time with more of which for
// others the table has a warning.
const quietShare = 5

// watch begins to watch the machine; what it returns ends that, and reports how much
// of it others used, and so how far the figures can be trusted.
func (r *Rig) watch() (end func() (table.Section, error), err error) {
	begin := time.Now()
	before, err := r.othersBusy()
	if err != nil {
		return nil, err
	}
	return func() (table.Section, error) {
		after, err := r.othersBusy()
		share := 100 * float64(after-before) / float64(time.Since(begin)) / float64(runtime.NumCPU())
		row := table.Row{Name: "CPU time that other programs used", Unit: "%",
			Value: measure.Sample{max(share, 0)}, Note: measure.Load()}
		if share > quietShare {
			row.Note += ": NOT A QUIET MACHINE, the figures are too high"
		}
		return table.Section{Title: "The machine meanwhile", Rows: []table.Row{row}}, err
	}, nil
}

// othersBusy is the CPU time of all programs but ours.
func (r *Rig) othersBusy() (time.Duration, error) {
	all, err := measure.Busy()
	if err != nil {
		return 0, err
	}
	ours, err := r.CPU()
	return all - ours, err
}
