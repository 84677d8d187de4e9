//go:build linux

// Package cache measures how fast the memory of this machine answers, and makes a machine with
// much cache behave like one with little: by a neighbour on the same core.
package cache

import (
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
	runs     = 5
	loads    = 100_000 // of a run
)

// Curve measures loads of which each depends on the one before, from blocks of 256 KiB to 64 MiB.
// It runs on one core.
func Curve(core int) (curve []Point, err error) {
	err = onCore(core, func() {
		for kib := leastKiB; kib <= mostKiB; kib *= 2 {
			curve = append(curve, point(kib))
		}
	})
	return curve, err
}

// AnyCore lets the scheduler choose.
const AnyCore = -1

// line is a line of the cache.
type line struct {
	next uint32
	_    [60]byte
}

// sink keeps loads from being left out.
var sink atomic.Uint32

// point measures loads from a block of this size: once around in random order, so that nothing
// guesses the next line. Time on the processor counts, not that of others.
func point(kib int) Point {
	p := Point{KiB: kib}
	block := make([]line, kib<<10/64)
	order := rand.Perm(len(block))
	for i, at := range order {
		block[at].next = uint32(order[(i+1)%len(order)])
	}
	at := uint32(0)
	chase := func(loads int) {
		for range loads {
			at = block[at].next
		}
	}
	chase(len(block))
	for range runs {
		begin := ran()
		chase(loads)
		p.Nanos = append(p.Nanos, float64(ran()-begin)/loads)
	}
	sink.Store(at)
	return p
}

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
			err = Pin(0, core)
		}
		if err == nil {
			f()
		}
		done <- err
	}()
	return <-done
}

// Pin keeps a thread on these cores; thread 0 is the caller's. One that has ended is no error.
func Pin(thread int, cores ...int) error {
	var set unix.CPUSet
	for _, core := range cores {
		set.Set(core)
	}
	if err := unix.SchedSetaffinity(thread, &set); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("keep thread %d on cores %v: %w", thread, cores, err)
	}
	return nil
}
