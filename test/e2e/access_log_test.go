package e2e

import (
	"strings"
	"testing"
)

// The access log of docs/access-log.md is that of envoy/pop.yaml. TestKnown compares its fields with what Envoy writes.
func TestAccessLogPage(t *testing.T) {
	_, config, _ := strings.Cut(shipped(t, "docs/access-log.md"), "\n```yaml\n")
	config, _, found := strings.Cut(config, "\n```\n")
	if !found || !strings.Contains(plain(shipped(t, "envoy/pop.yaml")), plain(config)) {
		t.Errorf("docs/access-log.md has another access log than envoy/pop.yaml:\n%s", config)
	}
}

// plain is a text without comments and indentation.
func plain(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
