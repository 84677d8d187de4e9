//go:build linux

package cache

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirlimit/weir/test/kit/proc"
)

func TestMain(m *testing.M) {
	Serve() // a neighbour is this program started once more
	os.Exit(m.Run())
}

// The curve has a point for each size, and no cache holds the largest block.
func TestCurve(t *testing.T) {
	curve, err := Curve(AnyCore)
	if err != nil {
		t.Fatal(err)
	}
	if len(curve) != 9 || curve[0].String() != "256 KiB" || curve[8].String() != "64 MiB" {
		t.Fatalf("the points are %v", curve)
	}
	if small, large := curve[0].Nanos.Min(), curve[8].Nanos.Min(); small <= 0 || large <= small {
		t.Errorf("a load takes %v ns from %v and %v ns from %v", small, curve[0], large, curve[8])
	}
}

// A neighbour uses the core that it was given until it is stopped.
func TestNeighbour(t *testing.T) {
	cores, err := Cores()
	if err != nil {
		t.Fatal(err)
	}
	n := &Neighbour{Core: cores[len(cores)-1], Rest: mostRest}
	p := n.begin(t)
	proc.Eventually(t, 10*time.Second, "the neighbour sweeps", func() bool { return p.CPU() > 20*time.Millisecond })
	var kept unix.CPUSet
	if err := unix.SchedGetaffinity(p.PID(), &kept); err != nil || kept.Count() != 1 || !kept.IsSet(n.Core) {
		t.Errorf("the neighbour runs on %v, want core %d: %v", kept, n.Core, err)
	}
	p.Kill()
	if log := p.Log(); log != "" {
		t.Errorf("the neighbour says: %s", log)
	}
}

// Keep moves all threads of a process, and what they start.
func TestKeep(t *testing.T) {
	cores, err := Cores()
	if err != nil {
		t.Fatal(err)
	}
	p := proc.Start(t, t.TempDir(), "sleep", "sleep", "60")
	if err := Keep(p.PID(), cores[0]); err != nil {
		t.Fatal(err)
	}
	var kept unix.CPUSet
	if err := unix.SchedGetaffinity(p.PID(), &kept); err != nil || kept.Count() != 1 || !kept.IsSet(cores[0]) {
		t.Errorf("the process runs on %v, want core %d: %v", kept, cores[0], err)
	}
	p.Kill()
	if err := Keep(p.PID(), cores[0]); err == nil {
		t.Error("a process that is gone was kept on a core")
	}
}
