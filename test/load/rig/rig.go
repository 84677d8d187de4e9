//go:build linux

// Package rig runs the programs that a benchmark measures, each in a process of
// its own, so that the CPU time and memory of each can be read by itself.
//
// Every Envoy has one worker thread and runs envoy/pop.yaml, the bootstrap that is
// shipped, with other addresses and without an access log. Two Envoys of a rig differ
// by their filter and by nothing else.
package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/load/round"
)

// Rig is a set of running programs, which end with it. They may be started by several
// goroutines.
type Rig struct {
	proc.Program

	counted struct {
		sync.Mutex
		all []*proc.Process
	}
}

// open makes an empty rig whose programs write to a new directory in .run. What is
// waited for ends with ctx.
func open(ctx context.Context) (r *Rig, err error) {
	defer proc.Recover(&err)
	r = &Rig{Program: proc.Program{Ctx: ctx}}
	r.Dir = proc.NewDir(r, "bench")
	return r, nil
}

// discard removes the rig's directory, for when nobody will ask what went wrong.
func (r *Rig) discard() error { return os.RemoveAll(r.Dir) }

// start starts a program and waits until it is ready; see [proc.Process.AwaitReady].
func (r *Rig) start(name, readyURL string, argv ...string) (p *proc.Process, err error) {
	defer proc.Recover(&err)
	p = proc.Start(r, r.Dir, name, argv...)
	r.Count(p)
	p.AwaitReady(readyURL)
	return p, nil
}

// Count counts a program that runs among those of the rig, for CPU.
func (r *Rig) Count(p *proc.Process) {
	r.counted.Lock()
	defer r.counted.Unlock()
	r.counted.all = append(r.counted.all, p)
}

// CPU is the processor time that this program and all that the rig has started
// have used so far.
func (r *Rig) CPU() (time.Duration, error) {
	r.counted.Lock()
	all := slices.Clone(r.counted.all)
	r.counted.Unlock()
	sum, err := usedByUs()
	for _, p := range all {
		if p.Exited() {
			continue // it is among our children then
		}
		cpu, err2 := measure.CPU(p.PID())
		sum, err = sum+cpu, errors.Join(err, err2)
	}
	return sum, err
}

// Meter reads the processor time of a program.
func Meter(p *proc.Process) round.Meter {
	return round.Meter{Name: p.Name, Read: func() (time.Duration, error) { return measure.CPU(p.PID()) }}
}

// usedByUs is what this process and those of its children that have ended used.
func usedByUs() (sum time.Duration, err error) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			return 0, fmt.Errorf("own CPU time: %w", err)
		}
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return sum, nil
}
