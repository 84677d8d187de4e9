package measure

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// CPU is the processor time, user and system, that a process has used since it
// started, from the scheduler's accounting of its threads (nanoseconds). It
// needs a Linux /proc. What threads used that have ended since is not in it, so
// it suits processes whose threads live as long as they do.
func CPU(pid int) (time.Duration, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(tasks) == 0 {
		return 0, fmt.Errorf("CPU time of process %d: no such process, or no /proc", pid)
	}
	var sum time.Duration
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if errors.Is(err, os.ErrNotExist) {
			continue // ended between the listing and the reading
		}
		if err != nil {
			return 0, fmt.Errorf("CPU time of process %d: %w", pid, err)
		}
		ran, err := parseSchedstat(string(text))
		if err != nil {
			return 0, fmt.Errorf("CPU time of process %d: %s: %w", pid, task, err)
		}
		sum += ran
	}
	return sum, nil
}

// RSS is the resident memory of a process in bytes.
func RSS(pid int) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("resident memory of process %d: %w", pid, err)
	}
	n, err := parseRSS(string(text))
	if err != nil {
		return 0, fmt.Errorf("resident memory of process %d: %w", pid, err)
	}
	return n, nil
}

// parseSchedstat reads the first of the three numbers: nanoseconds on a CPU.
func parseSchedstat(text string) (time.Duration, error) {
	fields := strings.Fields(text)
	if len(fields) != 3 {
		return 0, fmt.Errorf("%q is not three numbers", text)
	}
	ns, err := strconv.ParseInt(fields[0], 10, 64)
	if err != nil {
		return 0, err
	}
	return time.Duration(ns), nil
}

func parseRSS(text string) (int64, error) {
	for line := range strings.Lines(text) {
		value, found := strings.CutPrefix(line, "VmRSS:")
		if !found {
			continue
		}
		kb, found := strings.CutSuffix(strings.TrimSpace(value), " kB")
		if !found {
			return 0, fmt.Errorf("VmRSS is not in kB: %q", line)
		}
		n, err := strconv.ParseInt(kb, 10, 64)
		return n << 10, err
	}
	return 0, errors.New("no VmRSS line")
}
