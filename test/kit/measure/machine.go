package measure

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Busy is the processor time that the whole machine has spent on anything since
// it started, all cores added up, to 10 ms. It needs a Linux /proc.
func Busy() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, fmt.Errorf("CPU time of the machine: %w", err)
	}
	busy, err := parseStat(string(text))
	if err != nil {
		return 0, fmt.Errorf("CPU time of the machine: /proc/stat: %w", err)
	}
	return busy, nil
}

// parseStat adds up the first line but for idle and iowait, and for guest, which
// is in user already; see proc_stat(5).
func parseStat(text string) (time.Duration, error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("the first line is %q", line)
	}
	var ticks int64
	for i, field := range fields[1:9] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, err
		}
		if i != 3 && i != 4 {
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// Load is the machine's load average over the last minute, and what it ran on, in
// words; empty where there is no /proc.
func Load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	minute, _, _ := strings.Cut(string(text), " ")
	return fmt.Sprintf("%d cores, load average %s", runtime.NumCPU(), minute)
}
