//go:build linux

// Package cache measures how fast the memory of this machine answers, and makes a machine with
// much cache behave like one with little: by a neighbour on the same core.
package cache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlimit/weir/test/kit/measure"
)

// Point is what loads from a block of memory cost.
type Point struct {
	KiB   int            // of the block
	Nanos measure.Sample // per load, one value per run
}

// String is the size of the block.
func (p Point) String() string {
	if p.KiB < 1024 {
		return fmt.Sprintf("%d KiB", p.KiB)
	}
	return fmt.Sprintf("%d MiB", p.KiB/1024)
}

const (
	leastKiB = 256
	mostKiB  = 64 << 10
	runs     = 5       // each in a block of its own
	loads    = 100_000 // of a run
)

// Curve measures loads of which each depends on the one before, from blocks of 256 KiB to 64 MiB.
// It runs on one core.
func Curve(core int) (curve []Point, err error) {
	for kib := leastKiB; kib <= mostKiB && err == nil; kib *= 2 {
		var p Point
		p, err = point(core, kib)
		curve = append(curve, p)
	}
	return curve, err
}

// AnyCore lets the scheduler choose.
const AnyCore = -1

// point measures loads from blocks of this size, each in other pages: which these are decides how much
// of a block its cache holds.
func point(core, kib int) (p Point, err error) {
	p.KiB = kib
	order := rand.Perm(kib << 10 / line)
	measured := onCore(core, func() {
		for range runs {
			var block []byte
			if block, err = unix.Mmap(-1, 0, kib<<10, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE); err != nil {
				return
			}
			p.Nanos = append(p.Nanos, around(block, order))
			_ = unix.Munmap(block) // it is mapped
		}
	})
	return p, errors.Join(measured, err)
}

// line is the bytes of a line of the cache.
const line = 64

// around reads one line of a block after the other in this order, so that nothing guesses the next, and
// returns the ns of a load. Time on the processor counts, not that of others.
func around(block []byte, order []int) float64 {
	for i, at := range order {
		binary.NativeEndian.PutUint32(block[at*line:], uint32(order[(i+1)%len(order)]*line))
	}
	at := uint32(0)
	chase := func(loads int) {
		for range loads {
			at = binary.NativeEndian.Uint32(block[at:])
		}
	}
	chase(min(len(order), loads))
	begin := ran()
	chase(loads)
	took := ran() - begin
	sink.Store(at)
	return float64(took) / loads
}

// sink keeps loads from being left out.
var sink atomic.Uint32

// ran is how long this thread has been on a processor.
func ran() time.Duration {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) // fails for no clock that Linux has
	return time.Duration(t.Nano())
}

// onCore runs f on a thread that stays on one core, and ends that thread.
func onCore(core int, f func()) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		var err error
		if core != AnyCore {
			err = pin(0, core)
		}
		if err == nil {
			f()
		}
		done <- err
	}()
	return <-done
}

// pin keeps a thread on these cores; thread 0 is the caller's. One that has ended is no error.
func pin(thread int, cores ...int) error {
	var set unix.CPUSet
	for _, core := range cores {
		set.Set(core)
	}
	if err := unix.SchedSetaffinity(thread, &set); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("keep thread %d on cores %v: %w", thread, cores, err)
	}
	return nil
}
