package docs

import (
	"encoding/json"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/region"
)

const slotsPage = "docs/slots.md"

var slotsExample = regexp.MustCompile("(?m)^    (curl .*)\n\n```text\n(.*)\n```")

// A service that follows the page gets what it shows: only the wait is another one, and the version of the rules is left out.
func TestSlotsPage(t *testing.T) {
	page := read(t, slotsPage)
	_, rules, _ := strings.Cut(page, "```yaml\n")
	rules, _, _ = strings.Cut(rules, "```")
	r := region.New(t, region.Config{Dir: t.TempDir(), Rules: rules, Flags: []string{"--state", "off"}})
	r.Start()
	r.AwaitReady()
	examples := slotsExample.FindAllStringSubmatch(page, -1)
	if len(examples) != strings.Count(page, "```text") || len(examples) == 0 {
		t.Fatalf("%d examples are found", len(examples))
	}
	for _, e := range examples {
		out, err := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", strings.ReplaceAll(e[1], "127.0.0.1:8080", r.Addr)).Output()
		var got, want map[string]any
		if err != nil || json.Unmarshal(out, &got) != nil || json.Unmarshal([]byte(e[2]), &want) != nil {
			t.Fatalf("%s: %v, printed %s", e[1], err, out)
		}
		delete(got, "rulesVersion")
		if _, waits := want["retryAfterMs"]; waits && got["retryAfterMs"] != nil {
			got["retryAfterMs"] = want["retryAfterMs"]
		}
		if g, w := encoded(got), encoded(want); g != w {
			t.Errorf("%s\nprinted %s\nthe page has %s", e[1], g, w)
		}
	}
}

func encoded(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}
