package e2e

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
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

// A key of bytes that are no text is one line of text, and the same in the access log, in each command, in a rule and in the
// dashboard's API; no metric has it. So is one that an else has.
func TestOddKey(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	proc.AwaitDay()
	const odd, address = `\x0d\x0a{"level":"error"}\x1b[2J\x00\xff\|\\h<img onerror>|ann`, `client_ip 127.0.0.1|ann`
	const rules = `
rules:
  - { name: odd, key: [{ query: q, else: client_ip }, { header: x-user }], limit: 1/1d, algorithm: fixed_window, consistency: exact, timeout: 1s, on_failure: deny,
      overrides: [{ key: ['` + odd + `'], limit: 2/1d }, { key: ['` + address + `'], limit: 2/1d }] }
`
	log := filepath.Join(t.TempDir(), "access.log")
	s := stack.Start(t, stack.Config{PoPs: 1, Workers: 1, Rules: rules, Bootstrap: func(b *envoy.Bootstrap) { b.SetAccessLog(log) }})
	awaitRules(t, s)
	weir := func(args ...string) string {
		t.Helper()
		out := weirPrints(t, "", append(args, "--admin", s.Region.Admin, "-o", "json")...)
		if !utf8.ValidString(out) {
			t.Errorf("weir %q: %q", args, out)
		}
		return out
	}
	for key, path := range map[string]string{odd: "/?q=%0d%0a{%22level%22:%22error%22}%1b[2J%00%ff%7c%5ch%3Cimg+onerror%3E", address: "/"} {
		get := func() int { return s.PoPs[0].Get(path, "x-user", "ann").Status }
		if got := []int{get(), get(), get()}; !slices.Equal(got, []int{200, 200, 429}) {
			t.Errorf("%s: %v, want two by the override", key, got)
		}
		text, _ := json.Marshal(key)
		shown := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(string(text))
		logs(t, log, regexp.QuoteMeta(`"key":`+shown))
		proc.Eventually(t, time.Minute, "top has "+shown, func() bool {
			get()
			return strings.Contains(weir("top"), `"key": `+shown)
		})
		if got := weir("peek", "odd", key, "--no-watch"); !strings.Contains(got, `"remaining": 0`) || !strings.Contains(got, `"counted": `+shown) || !strings.Contains(got, `"own_limit": true`) {
			t.Errorf("peek: %s", got)
		}
		if got := weir("reset", "odd", key, "--reason", "a test"); !strings.Contains(got, `"remaining": 2`) {
			t.Errorf("reset: %s", got)
		}
	}
	for _, of := range []string{s.Region.Admin + "/metrics", s.PoPs[0].Admin + "/stats/prometheus"} {
		host, path, _ := strings.Cut(of, "/")
		r, err := stack.Do(host, http.MethodGet, "/"+path, "")
		if text := strings.ReplaceAll(string(r.Body), "\n", ""); err != nil || !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) || strings.Contains(text, "onerror") {
			t.Errorf("%s: %v, or it has the key, or control characters", of, err)
		}
	}
}
