package telemetry

import (
	"strings"
	"testing"
)

func TestLogger(t *testing.T) {
	for format, want := range map[string]string{"json": `"msg":"hello","rule":"login"`, "text": `msg=hello rule=login`} {
		var out strings.Builder
		log := NewLogger(&out, format, "warn")
		log.Info("quiet")
		log.Warn("hello", "rule", "login")
		if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "quiet") {
			t.Errorf("%s: %s", format, out.String())
		}
	}
}
