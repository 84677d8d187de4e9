package keylimits

import (
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// Of overrides of one key each is used until it ends, then the one behind it, and then the rule's own limit.
func TestOneAfterTheOther(t *testing.T) {
	set := fatal.Get(rulefile.Parse("rules", []byte(`
rules:
- name: a
  key: [{ header: x }]
  limit: 5/1m
  overrides:
  - { key: [k], limit: 10/1m, until: 1970-01-01T00:00:10Z }
  - { key: [k], limit: 20/1m, until: 1970-01-01T00:00:20Z }
  - { key: [k], limit: 30/1m, until: 1970-01-01T00:00:30Z }
  - { key: [m], limit: 11/1m, until: 1970-01-01T00:00:10Z }
  - { key: [m], limit: 12/1m }
`)))(t)
	r := set.Rule(0)
	table := New(r, nil, &engine.Policy{Limit: set.Limit(0, 0)})
	for _, c := range []struct {
		key         string
		second      limit.Micros
		want, until int64
	}{
		{"k", 0, 10, 10}, {"k", 9, 10, 10}, {"k", 10, 20, 20}, {"k", 19, 20, 20}, {"k", 20, 30, 30}, {"k", 30, 0, 0}, {"k", 99, 0, 0},
		{"m", 9, 11, 10}, {"m", 10, 12, 0}, {"m", 99, 12, 0}, {"n", 0, 0, 0},
	} {
		own, got := table.Find(r.KeyOf([]string{c.key}), c.second*limit.Second), int64(0)
		if own.Policy != nil {
			got = own.Policy.Limit.Spec().Count
		}
		if got != c.want || own.Until != limit.Micros(c.until)*limit.Second {
			t.Errorf("%s at %d s: %d until %d, want %d until %d s", c.key, c.second, got, own.Until, c.want, c.until)
		}
	}
	for _, wrong := range []string{
		"[{ key: [k], limit: 1/1m }, { key: [k], limit: 2/1m, until: 2026-12-01T00:00:00Z }]",
		"[{ key: [k], limit: 1/1m, until: 2026-12-02T00:00:00Z }, { key: [k], limit: 2/1m, until: 2026-12-01T00:00:00Z }]",
		"[{ key: [k], limit: 1/1m, until: 2026-12-01T00:00:00Z }, { key: [k], limit: 2/1m, until: 2026-12-01T00:00:00Z }]",
	} {
		if _, err := rulefile.Parse("rules", []byte("rules: [{ name: a, key: [{ header: x }], limit: 5/1m, overrides: "+wrong+" }]")); err == nil {
			t.Errorf("%s has no mistake", wrong)
		}
	}
}
