package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Memory returns the resident memory of the process in bytes. It needs a Linux /proc.
func (p *Process) Memory() (bytes int64) {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	for line := range strings.Lines(string(status)) {
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &bytes); n == 1 {
			return bytes << 10
		}
	}
	p.t.Fatalf("%s: resident memory of process %d: no VmRSS, %v", p.Name, p.PID(), err)
	return 0
}

// CPU returns the processor time, user and system, that the process has used since it started,
// from the scheduler's accounting of its threads (nanoseconds): 0 until it ran first. It needs a Linux /proc. What
// threads used that have ended since is not in it, so it suits processes whose threads live as
// long as they do.
func (p *Process) CPU() (sum time.Duration) {
	p.t.Helper()
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.PID())) // the pattern is well-formed
	if len(tasks) == 0 {
		p.t.Fatalf("%s: CPU time: there is no process %d, or no /proc", p.Name, p.PID())
	}
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			continue // it has ended since
		}
		var ran time.Duration // the first of three numbers
		if _, err := fmt.Sscan(string(text), &ran); err != nil {
			p.t.Fatalf("%s: CPU time: %s: %v", p.Name, task, err)
		}
		sum += ran
	}
	return sum
}
