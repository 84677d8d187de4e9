//go:build linux

// Package release measures what a release is where it is installed: the bytes of its images, how long its programs
// take to start, and what memory they have with very many keys. It runs the programs and the filter of the archive,
// which are those of the images, and needs what `make setup`, `make build` and `make release` leave.
package release

import (
	"context"
	"net/http"
	"os"
	"time"

	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/table"
)

type bench struct {
	plan
	*rig.Rig
	unpacked string // directory of what its archive has for this machine
}

// plan is how much is measured.
type plan struct {
	keys   int // that are counted
	pages  int // of the filter's table, which have room for 32 keys each
	starts int // of each program
}

var (
	fullPlan  = plan{keys: 1_000_000, pages: 32768, starts: 5}
	quickPlan = plan{keys: 60_000, pages: 2048, starts: 1}
)

// Run runs the benchmark and returns the table: with an error, what there is of it.
func Run(ctx context.Context, opts rig.Options) ([]table.Section, error) {
	return rig.Measure(ctx, opts, func(r *rig.Rig) []rig.Part {
		b := &bench{plan: fullPlan, Rig: r}
		if opts.Quick {
			b.plan = quickPlan
		}
		b.unpacked = proc.UnpackRelease(b, b.Dir)
		return []rig.Part{{Name: "memory", Run: b.inMemory}, {Name: "redis", Run: b.inRedis}, {Name: "global", Run: b.global}, {Name: "filter", Run: b.filters}}
	})
}

// ready starts a running program again, and reads how long it takes until a URL answers 200.
func (b *bench) ready(p *proc.Process, url string, begin func()) (seconds float64) {
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	p.Stop()
	began := time.Now()
	for begin(); ; b.Wait(time.Millisecond) {
		if resp, _, err := page.Get(b.Ctx, &client, url); err == nil && resp.StatusCode == http.StatusOK {
			return time.Since(began).Seconds()
		}
		if p.Exited() || time.Since(began) > time.Minute {
			b.Fatalf("%s does not become ready:\n%s", p.Name, p.Tail(10))
		}
	}
}

// resident reads the memory of a program in MB, a few times: its collector goes on. Before, it has a rest in which
// it gives back what it needed for a while.
func (b *bench) resident(p *proc.Process) (megabytes measure.Sample) {
	b.Wait(5 * time.Second)
	for range 5 {
		megabytes = append(megabytes, float64(p.Memory())/1e6)
		b.Wait(500 * time.Millisecond)
	}
	return megabytes
}

// sized is the first row of an image: what its layout has, compressed, for both architectures.
func (b *bench) sized(image string) table.Row {
	about, err := os.Stat(proc.Released(b, image+"_VERSION_oci.tar"))
	b.Must(err)
	return table.Row{Name: "image " + image + ", for both architectures", Unit: "MB", Value: measure.Sample{float64(about.Size()) / 1e6}}
}
