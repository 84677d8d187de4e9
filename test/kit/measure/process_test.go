package measure

import (
	"os"
	"testing"
	"time"
)

func TestCPUOfThisProcessGrowsWithWork(t *testing.T) {
	before, err := CPU(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	after, sum := before, 0
	for deadline := time.Now().Add(30 * time.Second); after <= before; sum++ {
		if time.Now().After(deadline) {
			t.Fatalf("CPU time is still %v after %d steps of work", after, sum)
		}
		if after, err = CPU(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRSSOfThisProcess(t *testing.T) {
	got, err := RSS(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if got < 1<<20 || got > 1<<40 {
		t.Errorf("RSS = %d bytes, which no test binary has", got)
	}
}

func TestNoSuchProcess(t *testing.T) {
	const pid = 1 << 30 // above the kernel's largest
	if _, err := CPU(pid); err == nil {
		t.Error("CPU: want an error")
	}
	if _, err := RSS(pid); err == nil {
		t.Error("RSS: want an error")
	}
}

func TestParseRSS(t *testing.T) {
	got, err := parseRSS("Name:\tenvoy\nVmHWM:\t 9 kB\nVmRSS:\t   64512 kB\nThreads:\t3\n")
	if err != nil || got != 64512<<10 {
		t.Errorf("parseRSS = %d, %v, want %d", got, err, 64512<<10)
	}
	for _, bad := range []string{"", "VmRSS: 12 MB\n", "VmRSS: x kB\n"} {
		if got, err := parseRSS(bad); err == nil {
			t.Errorf("parseRSS(%q) = %d, want an error", bad, got)
		}
	}
}

func TestParseSchedstat(t *testing.T) {
	if got, err := parseSchedstat("373719 12 1\n"); err != nil || got != 373719 {
		t.Errorf("parseSchedstat = %v, %v", got, err)
	}
	for _, bad := range []string{"", "1 2", "x 1 2"} {
		if got, err := parseSchedstat(bad); err == nil {
			t.Errorf("parseSchedstat(%q) = %v, want an error", bad, got)
		}
	}
}
