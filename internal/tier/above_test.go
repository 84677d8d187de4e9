package tier

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
)

// TestWarnPlain: calls without TLS that leave the machine are logged, each address by itself.
func TestWarnPlain(t *testing.T) {
	var lines strings.Builder
	warnPlain([]string{"127.0.0.1:1", "localhost:2", "[::1]:3", "10.0.0.7:4", "weir-global:5"}, slog.New(slog.NewTextHandler(&lines, nil)))
	var named []string
	for line := range strings.Lines(lines.String()) {
		if !strings.Contains(line, "--global-tls") {
			t.Errorf("%q names no remedy", line)
		}
		_, address, _ := strings.Cut(strings.TrimSpace(line), "address=")
		named = append(named, address)
	}
	if want := []string{"10.0.0.7:4", "weir-global:5"}; !slices.Equal(named, want) {
		t.Errorf("warned of %v, want %v", named, want)
	}
}
