package upstream_test

import (
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/upstream"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// The windows of a region's reserve are those of all limits with shares, each once.
func TestWindowsOf(t *testing.T) {
	set := fatal.Get(rulefile.Parse("rules.yaml", []byte(`
regions: { eu: 1 }
rules:
  - { name: a, key: [ { header: x-key } ], limit: 10/1m, algorithm: fixed_window, scope: global, overrides: [ { key: [k], limit: 20/1m } ] }
  - { name: b, key: [], limit: 10/1h, algorithm: fixed_window, scope: global, overrides: [ { when: { header: { x-tier: gold } }, limit: 100/1h } ] }
  - { name: c, key: [ { header: x-key } ], limit: { count: 10, per: 1m, burst: 10 }, algorithm: token_bucket, scope: global, overrides: [ { key: [k], limit: { count: 10, per: 1m, burst: 20 } } ] }
  - { name: allows, key: [], limit: 10/1d, algorithm: fixed_window, scope: global, on_failure: allow }
  - { name: near, key: [], limit: 10/30m, algorithm: fixed_window }
`)))(t)
	want := []reserve.Window{{Period: limit.Minute}, {Period: limit.Hour}, {Period: limit.Minute, Refills: true}, {Period: 2 * limit.Minute, Refills: true}}
	got := upstream.WindowsOf(set)
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%v, want %v", got[i], want[i])
		}
	}
}
