package docs

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/region"
)

// Pages about calls of QuotaService.
const slotsPage, protocolPage = "docs/slots.md", "docs/protocol.md"

var (
	callExample = regexp.MustCompile("(?m)^    (curl .*)\n\n```text\n(.*)\n```")
	wait        = regexp.MustCompile(`"(retryAfterMs|resetMs)": ?"\d+"`)
)

// A service that follows the pages gets what they show: only waits differ, and the version of the rules is left out.
func TestProtocolPages(t *testing.T) {
	for _, path := range []string{slotsPage, protocolPage} {
		page := read(t, path)
		_, rules, _ := strings.Cut(page, "```yaml\n")
		rules, _, _ = strings.Cut(rules, "```")
		r := region.New(t, region.Config{Dir: t.TempDir(), Rules: rules, Flags: []string{"--state", "off"}})
		r.Start()
		examples := callExample.FindAllStringSubmatch(page, -1)
		if len(examples) != strings.Count(page, "```text") || len(examples) == 0 {
			t.Fatalf("%s: %d examples are found", path, len(examples))
		}
		for _, e := range examples {
			out, err := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", strings.ReplaceAll(e[1], "127.0.0.1:8080", r.Addr)).Output()
			if got, want := answer(t, string(out)), answer(t, e[2]); err != nil || got != want {
				t.Errorf("%s: %v, printed %s\nthe page has %s", e[1], err, got, want)
			}
		}
	}
}

// answer is an answer without what differs from run to run.
func answer(t *testing.T, text string) string {
	t.Helper()
	var fields map[string]any
	fatal.If(t, json.Unmarshal([]byte(wait.ReplaceAllString(text, `"$1": "0"`)), &fields))
	delete(fields, "rulesVersion")
	delete(fields, "rulesRevision")
	return string(fatal.Get(json.Marshal(fields))(t))
}
