package docs

import (
	"testing"

	"github.com/weirlimit/weir/internal/ruleset/rulefile"
)

// What docs/rules.md names under "Combinations" goes together, all of it at once, but for the pairs that it excepts.
func TestWhatGoesTogether(t *testing.T) {
	const (
		counted    = "rules:\n  - name: r\n    key: [client_ip]\n    algorithm: fixed_window\n    limits: [5/1m, 20/month]\n    hash: true\n    mode: shadow\n"
		exempt     = "rules:\n  - name: r\n    mode: exempt\n    match: { path: /healthz }\n"
		percent    = "    percent: 20\n"
		variants   = "    variants: [{ name: a, weight: 90 }, { name: b, weight: 10, consistency: exact }]\n"
		candidates = "candidates: [{ rule: r, limit: 3/1m }]\n"
	)
	for text, legal := range map[string]bool{
		counted + percent + candidates:  true,
		counted + variants + candidates: true,
		counted + percent + variants:    false,

		exempt:                                 true,
		exempt + percent:                       false,
		exempt + variants:                      false,
		exempt + candidates:                    false,
		exempt + "    hash: true\n":            false,
		exempt + "    limit: 5/1m\n":           false,
		exempt + "    limits: [5/1m, 20/1d]\n": false,
	} {
		if _, err := rulefile.Parse("rules.yaml", []byte(text)); (err == nil) != legal {
			t.Errorf("want legal %v, read: %v\n%s", legal, err, text)
		}
	}
}
