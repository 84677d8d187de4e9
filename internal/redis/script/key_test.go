package script_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/script"
)

// named makes a policy of a rule's override for a limit per so many milliseconds.
func named(rule string, override uint64, ms int64) *engine.Policy {
	p := policy(limit.Spec{Count: 1, Period: limit.Micros(ms) * limit.Millisecond}, lease.Leased, 0)
	return engine.NewPolicy(rule, override, p.Limit, p.Terms)
}

func nameOf(p *engine.Policy, key string) string {
	return string(script.AppendKey(nil, p, []byte(key)))
}

func TestKeys(t *testing.T) {
	for _, c := range []struct {
		rule     string
		override uint64
		key      string
		want     string
	}{
		{"login", 0, "10.0.0.1", "weir:{login:10.0.0.1}0"},
		{"login", 0, "", "weir:{login:}0"},
		{"", 0, "", "weir:{:}0"},
		{"per-user", 31, "acme", "weir:{per-user:acme}1f"},
		{"per-user", 1<<64 - 1, "acme", "weir:{per-user:acme}ffffffffffffffff"},
		{"a:b", 0, "c:d", "weir:{a%3Ab:c:d}0"},
		{"a}b", 0, "c}d", "weir:{a%7Db:c%7Dd}0"},
		{"100%", 0, "%7D", "weir:{100%25:%257D}0"},
		{"{a}", 0, "{b}", "weir:{{a%7D:{b%7D}0"},
		{"a", 0, "\x00\xff\n", "weir:{a:\x00\xff\n}0"},
	} {
		p := named(c.rule, c.override, 1000)
		want := c.want + ".3e80.1"
		if got := nameOf(p, c.key); got != want {
			t.Errorf("rule %q, override %d, key %q: %q, want %q", c.rule, c.override, c.key, got, want)
		}
	}
}

// TestKeysAreApart: counters of different rules, overrides, shapes or keys never share a name, whose hash tag is rule
// and key.
func TestKeysAreApart(t *testing.T) {
	text := rapid.OneOf(rapid.StringOfN(rapid.RuneFrom([]rune("%}:{2573ADad0/")), 0, 6, -1), rapid.String())
	rapid.Check(t, func(t *rapid.T) {
		type counter struct {
			rule, key string
			override  uint64
			ms        int64
		}
		draw := func(label string) counter {
			return counter{text.Draw(t, label+" rule"), text.Draw(t, label+" key"),
				rapid.SampledFrom([]uint64{0, 1, 0x10, 0x11, 1<<63 | 0x100}).Draw(t, label+" override"), rapid.SampledFrom([]int64{1, 2, 16, 9_441_000, 37_583_000}).Draw(t, label+" period")}
		}
		a, b := draw("one"), draw("other")
		one, other := nameOf(named(a.rule, a.override, a.ms), a.key), nameOf(named(b.rule, b.override, b.ms), b.key)
		if (one == other) != (a == b) {
			t.Fatalf("%+v is %q, %+v is %q", a, one, b, other)
		}
		if got := nameParts.FindStringSubmatch(one); got == nil || unescape(got[1]) != a.rule || unescape(got[2]) != a.key {
			t.Fatalf("%q of rule %q and key %q, want an override, a shape and a layout behind them", one, a.rule, a.key)
		}
	})
}

// nameParts are the rule and the key in a name, before an override, a shape of 39 bits and a layout.
var nameParts = regexp.MustCompile(`^weir:\{([^:}]*):([^}]*)\}[0-9a-f]{1,16}\.(?:[0-9a-f]{1,9}|[0-7][0-9a-f]{9})\.1$`)

func unescape(s string) string {
	return strings.NewReplacer("%25", "%", "%7D", "}", "%3A", ":").Replace(s)
}
