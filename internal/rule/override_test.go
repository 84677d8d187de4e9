package rule_test

import (
	"testing"

	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// TestOverrideIsNamedByWhatItIs: its place, its limit and what stands around it do not change the name of an override's
// counters; its own name or, without one, what it is for does.
func TestOverrideIsNamedByWhatItIs(t *testing.T) {
	const gold, silver = `{"when":{"header":{"x-tier":"gold"}},"limit":"50/1m"}`, `{"when":{"header":{"x-tier":"silver"}},"limit":"20/1m"}`
	names := func(overrides string) []uint64 {
		t.Helper()
		set, err := read.JSON([]byte(`{"rules":[{"name":"a","key":["client_ip"],"limit":"5/1m","algorithm":"token_bucket","overrides":[` + overrides + `]}]}`))
		fatal.If(t, err)
		var out []uint64
		for v := range set.Rule(0).Limits {
			out = append(out, set.Override(0, v))
		}
		return out
	}
	alone := names(gold)
	if alone[0] != 0 || alone[1]>>63 != 1 {
		t.Errorf("names %x: want 0 for the base limit, and the highest bit for an override", alone)
	}
	// Counters outlive a release: these names never change.
	const pinned, pinnedByName = 0xe56b187051fb6a32, 0xc2bf6a5f69eb079e
	if alone[1] != pinned {
		t.Errorf("gold is %#x, and was %#x", alone[1], uint64(pinned))
	}
	if got := names(silver + "," + gold); got[2] != alone[1] || got[1] == alone[1] {
		t.Errorf("behind another: %x, alone %x", got, alone)
	}
	if got := names(`{"when":{"header":{"x-tier":"gold"}},"limit":{"count":70,"per":"1m","burst":90}}`); got[1] != alone[1] {
		t.Errorf("with another limit: %x, before %x", got, alone)
	}
	named := names(`{"name":"vip","when":{"header":{"x-tier":"gold"}},"limit":"50/1m"}`)
	if named[1] == alone[1] || named[1] != pinnedByName {
		t.Errorf("named: %#x, and was %#x", named[1], uint64(pinnedByName))
	}
	if got := names(silver + `,{"name":"vip","when":{"header":{"x-plan":"pro"}},"limit":"60/1m"}`); got[2] != named[1] {
		t.Errorf("named, for others: %x, before %x", got, named)
	}
}
