package proc

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Lines is a log that a test reads while it is written. The zero value is empty.
type Lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *Lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// With returns the lines that have all parts.
func (l *Lines) With(parts ...string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
next:
	for line := range strings.Lines(l.text.String()) {
		for _, part := range parts {
			if !strings.Contains(line, part) {
				continue next
			}
		}
		found = append(found, line)
	}
	return found
}

// Await waits until so many lines have all parts.
func (l *Lines) Await(t T, count int, parts ...string) {
	t.Helper()
	Await(t, time.Minute, fmt.Sprintf("%d lines with %q", count, parts), func() string {
		if len(l.With(parts...)) < count {
			return fmt.Sprintf("the log is %q", l.With())
		}
		return ""
	})
}
