//go:build linux

package cache

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlimit/weir/test/kit/proc"
)

// Neighbour is a program on one core that keeps the cache cold for whatever else runs there: again
// and again it goes through a block that is larger than the cache, and rests.
type Neighbour struct {
	Core  int
	Rest  time.Duration // between two sweeps
	Curve []Point       // as measured beside it
}

const (
	swept     = 4 << 20 // bytes of a sweep
	mostRest  = time.Millisecond
	leastRest = 100 * time.Microsecond // it leaves a third of the core or more
	lifetime  = 20 * time.Minute       // of one that nobody stops
	argument  = "neighbour"
)

// SlowNanos is what a load from SlowKiB costs beside a neighbour: what it cost on a machine with
// hardly any cache beyond that of a core.
const (
	SlowNanos = 135.0
	SlowKiB   = 4 << 10
)

// Calibrate finds the longest rest with which a load from SlowKiB costs SlowNanos on the core, twice in
// a row: once may be chance. Where none does, it is the shortest rest.
func Calibrate(t proc.T, core int) *Neighbour {
	n := &Neighbour{Core: core}
	for n.Rest = mostRest; n.Rest > leastRest && min(n.slows(t), n.slows(t)) < SlowNanos; n.Rest = n.Rest * 9 / 10 {
	}
	n.Rest = n.Rest.Round(10 * time.Microsecond)
	defer n.Start(t)()
	var err error
	if n.Curve, err = Curve(core); err != nil {
		t.Fatalf("%v", err)
	}
	return n
}

// slows is what a load from SlowKiB costs beside it, in ns.
func (n *Neighbour) slows(t proc.T) float64 {
	defer n.Start(t)()
	p, err := point(n.Core, SlowKiB)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return p.Nanos.Median()
}

// Start starts the neighbour, which ends when stop is called or the program ends. It is this program
// started once more: its main has to call [Serve].
func (n *Neighbour) Start(t proc.T) (stop func()) {
	p := n.begin(t)
	time.Sleep(100 * time.Millisecond) // until its own block is where it will stay
	return p.Kill
}

func (n *Neighbour) begin(t proc.T) *proc.Process {
	self, err := os.Executable()
	if err != nil {
		t.Fatalf("%v", err)
	}
	return proc.Start(t, t.TempDir(), argument, self, argument, strconv.Itoa(n.Core), n.Rest.String())
}

// Serve makes this program a neighbour if it was started as one: then it does not return.
func Serve() {
	if len(os.Args) != 4 || os.Args[1] != argument {
		return
	}
	core, err := strconv.Atoi(os.Args[2])
	rest, err2 := time.ParseDuration(os.Args[3])
	if err == nil && err2 == nil {
		err = sweep(core, max(rest, leastRest/2)) // never without a rest
	}
	fmt.Fprintln(os.Stderr, argument+":", err, err2)
	os.Exit(1)
}

// sweep goes through a block and rests, for the lifetime. It goes before everything else on the core
// if it may: else it waits for the scheduler, and comes less often.
func sweep(core int, rest time.Duration) error {
	runtime.LockOSThread()
	if err := pin(0, core); err != nil {
		return err
	}
	first := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_FIFO, Priority: 1,
		Flags: unix.SCHED_FLAG_RESET_ON_FORK}
	_ = unix.SchedSetAttr(0, first, 0)                 // fails without the right to it
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // fails for no number
	block := make([]byte, swept)
	pause := unix.NsecToTimespec(int64(rest))
	for end := time.Now().Add(lifetime); time.Now().Before(end); {
		for i := 0; i < len(block); i += line {
			block[i]++
		}
		_ = unix.Nanosleep(&pause, nil) // a signal cuts it short
	}
	return fmt.Errorf("ended after %v", lifetime)
}

// Keep keeps all threads of a process on these cores.
func Keep(pid int, cores ...int) error {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid)) // the pattern is well-formed
	if len(tasks) == 0 {
		return fmt.Errorf("process %d has no threads, or there is no /proc", pid)
	}
	for _, task := range tasks {
		thread, err := strconv.Atoi(filepath.Base(task))
		if err == nil {
			err = pin(thread, cores...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Cores are those that this process may use.
func Cores() (cores []int, err error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(os.Getpid(), &set); err != nil {
		return nil, fmt.Errorf("cores of this process: %w", err)
	}
	for core := range len(set) * 64 {
		if set.IsSet(core) {
			cores = append(cores, core)
		}
	}
	return cores, nil
}
