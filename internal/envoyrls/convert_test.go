package envoyrls

import (
	"encoding/json"
	"flag"
	"slices"
	"strings"
	"testing"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/envoyrls/convert"
	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// erlLevel is a level of a file of envoyproxy/ratelimit as JSON, which is YAML.
type erlLevel struct {
	Key         string         `json:"key"`
	Value       string         `json:"value,omitempty"`
	Share       bool           `json:"share_threshold,omitempty"`
	Shadow      bool           `json:"shadow_mode,omitempty"`
	Quota       bool           `json:"quota_mode,omitempty"`
	Detailed    bool           `json:"detailed_metric,omitempty"`
	RateLimit   map[string]any `json:"rate_limit,omitempty"`
	Descriptors []erlLevel     `json:"descriptors,omitempty"`
}

var (
	erlKeys   = []string{"user", "path", "remote_address", "x-tenant"}
	erlValues = []string{"a", "b", "ab", "/a|b", "2001:db8::1", "2001:db8::2", "a*"}
	erlStars  = []string{"*", "a*", "*b", "**"}
	erlNames  = []string{"", "", "one", "two", "no name"}
)

// drawLevels draws the levels below one. plain are those that convert completely.
func drawLevels(t *rapid.T, depth int, plain bool) (levels []erlLevel) {
	seen := map[[2]string]bool{}
	keys := rapid.SliceOfNDistinct(rapid.SampledFrom(erlKeys), 1, 2, rapid.ID).Draw(t, "keys")
	for range rapid.IntRange(1, 5).Draw(t, "levels") {
		l := erlLevel{Key: rapid.SampledFrom(keys).Draw(t, "key")}
		if rapid.Bool().Draw(t, "valued") {
			l.Value = rapid.SampledFrom(erlValues[:6]).Draw(t, "value")
		}
		if !plain && rapid.IntRange(0, 2).Draw(t, "odd") == 0 {
			l.Value = rapid.SampledFrom(erlStars).Draw(t, "star")
			l.Share = rapid.Bool().Draw(t, "share")
		}
		if at := [2]string{l.Key, l.Value}; seen[at] {
			continue
		} else {
			seen[at] = true
		}
		if rapid.IntRange(0, 3).Draw(t, "limited") > 0 {
			l.RateLimit = drawLimit(t, plain)
			l.Shadow = rapid.IntRange(0, 4).Draw(t, "shadow") == 0
			l.Quota = !plain && rapid.IntRange(0, 4).Draw(t, "quota") == 0
			l.Detailed = rapid.IntRange(0, 4).Draw(t, "detailed") == 0
		}
		if depth > 1 && rapid.Bool().Draw(t, "deeper") {
			l.Descriptors = drawLevels(t, depth-1, plain)
		}
		levels = append(levels, l)
	}
	return levels
}

func drawLimit(t *rapid.T, plain bool) map[string]any {
	name := rapid.SampledFrom(erlNames).Draw(t, "name")
	l := map[string]any{"name": name}
	if !plain && rapid.IntRange(0, 3).Draw(t, "replaces") == 0 {
		if other := rapid.SampledFrom(erlNames[2:]).Draw(t, "replaced"); other != name {
			l["replaces"] = []map[string]any{{"name": other}}
		}
	}
	if rapid.IntRange(0, 5).Draw(t, "unlimited") == 0 {
		l["unlimited"] = true
		return l
	}
	l["unit"] = rapid.SampledFrom([]string{"hour", "day", "week", "month", "year"}).Draw(t, "unit")
	l["requests_per_unit"] = rapid.IntRange(0, 4).Draw(t, "count")
	return l
}

// drawRequest draws a request of which each descriptor walks down the levels, or nearly.
func drawRequest(t *rapid.T, levels []erlLevel) *rlspb.RateLimitRequest {
	r := request()
	for range rapid.IntRange(1, 3).Draw(t, "descriptors") {
		var pairs []string
		for at := levels; len(at) > 0 && (len(pairs) == 0 || rapid.IntRange(0, 3).Draw(t, "on") > 0); {
			l := rapid.SampledFrom(at).Draw(t, "level")
			value := l.Value
			if value == "" || strings.Contains(value, "*") || rapid.IntRange(0, 3).Draw(t, "other") == 0 {
				value = rapid.SampledFrom(erlValues).Draw(t, "value")
			}
			pairs = append(pairs, l.Key, value)
			at = l.Descriptors
		}
		d := of(pairs...)
		if rapid.IntRange(0, 3).Draw(t, "own") == 0 {
			d = costing(uint64(rapid.IntRange(0, 3).Draw(t, "hits")), d) // 0 is a check
		}
		r.Descriptors = append(r.Descriptors, d)
	}
	r.HitsAddend = uint32(rapid.IntRange(0, 2).Draw(t, "hits"))
	return r
}

// TestConvertedDecidesTheSame: rules and bindings that were converted decide as the configuration does: beside it every
// request, and without it those of which nothing was left out.
func TestConvertedDecidesTheSame(t *testing.T) {
	if seed := flag.Lookup("rapid.seed").Value; seed.String() == "0" { // by chance few descriptors are bound
		fatal.If(t, seed.Set("1"))
	}
	requests, bound := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		plain := rapid.Bool().Draw(rt, "plain")
		levels := drawLevels(rt, 3, plain)
		data := fatal.Get(json.Marshal(map[string]any{"domain": "d", "descriptors": levels}))(rt)
		yaml := string(data)
		config, err := descriptor.Parse([]descriptor.File{{Name: "f.yaml", Data: data}}, descriptor.Options{})
		if err != nil {
			rt.Fatalf("%s\n%v", yaml, err)
		}
		chargeRejected := rapid.IntRange(0, 3).Draw(rt, "charge denied") == 0
		result, err := convert.Config(config, convert.Options{ChargeRejected: chargeRejected})
		if err != nil || plain && result.Left() > 0 {
			rt.Fatalf("%s\nleft out: %v (%v)", yaml, result.Remarks, err)
		}
		for _, beside := range []bool{true, false} {
			set := func(c *Config) { c.ChargeRejected = chargeRejected }
			there, here := newBench(t, yaml, set), newBench(t, "", set)
			if beside {
				here.SetConfig(config)
			}
			if err := here.bindTo(string(result.Rules), string(result.Bindings)); err != nil {
				rt.Fatalf("%s\n%v\n%s\n%s", yaml, err, result.Rules, result.Bindings)
			}
			for range 12 {
				r := drawRequest(rt, levels)
				if !beside && !converted(config, result, r) {
					continue
				}
				requests += len(r.Descriptors)
				want, got := nameless(there.ask(r), beside), nameless(here.ask(r), beside)
				for i, d := range r.Descriptors {
					if r := config.Match("d", entriesOf(d)); r != nil && got.Statuses[i].CurrentLimit != nil && result.Names[r.Path] != "" {
						bound++
					}
				}
				if !proto.Equal(want, got) {
					rt.Fatalf("%s\n%s\n%s\nbeside the configuration: %t\n%v\nwas answered\n%v\nand is\n%v", yaml, result.Rules, result.Bindings, beside, r, want, got)
				}
			}
		}
	})
	if bound*8 < requests {
		t.Errorf("of %d descriptors only %d were bound", requests, bound)
	}
}

// nameless is a response without the names of limits and, unless the configuration is there, what is left of none.
func nameless(r *rlspb.RateLimitResponse, beside bool) *rlspb.RateLimitResponse {
	r = proto.CloneOf(r)
	for _, s := range r.Statuses {
		if s.CurrentLimit != nil {
			s.CurrentLimit.Name = ""
		} else if !beside {
			s.LimitRemaining = 0
		}
	}
	return r
}

// converted reports whether nothing that was left out has a part in a request.
func converted(c *descriptor.Config, result *convert.Result, r *rlspb.RateLimitRequest) bool {
	return !slices.ContainsFunc(r.Descriptors, func(d *ratelimitpb.RateLimitDescriptor) bool {
		rule := c.Match(r.Domain, entriesOf(d))
		return rule != nil && result.Names[rule.Path] == "" && !rule.Unlimited
	})
}

func entriesOf(d *ratelimitpb.RateLimitDescriptor) (entries []descriptor.Entry) {
	for _, e := range d.Entries {
		entries = append(entries, descriptor.Entry{Key: e.Key, Value: e.Value})
	}
	return entries
}
