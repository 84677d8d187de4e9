package twin

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// node is a descriptor of a configuration, as envoyproxy/ratelimit's YAML has it.
type node struct {
	Key            string     `yaml:"key"`
	Value          string     `yaml:"value,omitempty"`
	RateLimit      *rateLimit `yaml:"rate_limit,omitempty"`
	ShadowMode     bool       `yaml:"shadow_mode,omitempty"`
	QuotaMode      bool       `yaml:"quota_mode,omitempty"`
	DetailedMetric bool       `yaml:"detailed_metric,omitempty"`
	ValueToMetric  bool       `yaml:"value_to_metric,omitempty"`
	ShareThreshold bool       `yaml:"share_threshold,omitempty"`
	Descriptors    []*node    `yaml:"descriptors,omitempty"`
}

type rateLimit struct {
	Name            string     `yaml:"name,omitempty"`
	Unit            string     `yaml:"unit,omitempty"`
	RequestsPerUnit uint32     `yaml:"requests_per_unit"`
	Unlimited       bool       `yaml:"unlimited,omitempty"`
	Replaces        []replaced `yaml:"replaces,omitempty"`
}

type replaced struct {
	Name string `yaml:"name"`
}

func file(t testing.TB, domain string, nodes []*node) string {
	t.Helper()
	text := fatal.Get(yaml.Marshal(struct {
		Domain      string  `yaml:"domain"`
		Descriptors []*node `yaml:"descriptors"`
	}{domain, nodes}))(t)
	return string(text)
}

// grammar makes configurations and requests at random, the same for the same seed.
type grammar struct {
	*rand.Rand
	rules int // made so far
}

func (g *grammar) one(n int) bool { return g.IntN(n) == 0 }

func pick[T any](g *grammar, from ...T) T { return from[g.IntN(len(from))] }

// The few keys and values meet again and again.
var (
	keys   = []string{"a", "b", "c"}
	values = []string{"x", "y", "xy", "z"}
)

func (g *grammar) config() []*node { return g.level(2) }

// level makes descriptors that lie beside each other, with so many levels below.
func (g *grammar) level(below int) []*node {
	var nodes []*node
	taken := map[string]bool{}
	for range 1 + g.IntN(4) {
		n := &node{Key: pick(g, keys...)}
		switch g.IntN(8) {
		case 0, 1, 2:
			n.Value = pick(g, values...)
		case 3:
			n.Value = pick(g, "*", "x*", "xy*")
			n.ShareThreshold = g.one(2)
		}
		if taken[n.Key+"_"+n.Value] {
			continue
		}
		taken[n.Key+"_"+n.Value] = true
		n.DetailedMetric, n.ValueToMetric = g.one(12), g.one(12)
		if below > 0 && g.one(2) {
			n.Descriptors = g.level(below - 1)
		}
		if len(n.Descriptors) == 0 || g.one(2) {
			g.limit(n)
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// limit makes a descriptor a rule.
func (g *grammar) limit(n *node) {
	g.rules++
	name := fmt.Sprintf("r%d", g.rules)
	n.RateLimit = &rateLimit{Unit: pick(g, "hour", "year", "YEAR")}
	switch g.IntN(8) {
	case 0:
		n.RateLimit.RequestsPerUnit = pick[uint32](g, 50, 100, 1000, 1_000_000, 1<<32-1)
	case 1:
		n.RateLimit.RequestsPerUnit = uint32(g.IntN(3))
	default:
		n.RateLimit.RequestsPerUnit = uint32(g.IntN(21))
	}
	if g.one(12) {
		n.RateLimit.Unlimited, n.RateLimit.Unit, n.RateLimit.RequestsPerUnit = true, "", 0
	}
	n.ShadowMode = g.one(6)
	n.QuotaMode = g.one(4)
	if g.one(2) {
		n.RateLimit.Name = name
	}
	for g.one(5) {
		if other := fmt.Sprintf("r%d", 1+g.IntN(8)); other != n.RateLimit.Name {
			n.RateLimit.Replaces = append(n.RateLimit.Replaces, replaced{other})
		}
	}
}

// path walks down a configuration and returns the entries of a descriptor that matches where it ends.
func (g *grammar) path(nodes []*node) (entries []*ratelimitpb.RateLimitDescriptor_Entry) {
	for len(nodes) > 0 {
		n := pick(g, nodes...)
		entries = append(entries, &ratelimitpb.RateLimitDescriptor_Entry{Key: n.Key, Value: g.fitting(n.Value)})
		if n.RateLimit != nil && g.one(2) {
			break
		}
		nodes = n.Descriptors
	}
	return entries
}

// fitting is a value that a rule's value matches.
func (g *grammar) fitting(value string) string {
	prefix, wild := strings.CutSuffix(value, "*")
	switch {
	case wild:
		return prefix + pick(g, "", "y", "z")
	case value == "":
		return pick(g, values...)
	}
	return value
}

// matching is the rule that a descriptor matches, nil if there is none, and whether its values share a counter. The
// lines need of a rule what is not in a response; what both services match is compared by their responses.
func matching(nodes []*node, d *ratelimitpb.RateLimitDescriptor) (rule *node, shared bool) {
	for _, e := range d.Entries {
		rule = among(nodes, e.Key, e.Value)
		if rule == nil {
			return nil, false
		}
		shared = shared || rule.ShareThreshold && rule.wild()
		nodes = rule.Descriptors
	}
	if rule != nil && rule.RateLimit == nil {
		rule = nil
	}
	return rule, shared
}

// among finds the one of descriptors that a key and value match: with just this
// value, by a wildcard, or by the key alone.
func among(nodes []*node, key, value string) *node {
	for _, ok := range []func(*node) bool{
		func(n *node) bool { return n.Value == value && value != "" },
		func(n *node) bool { return n.wild() && strings.HasPrefix(value, strings.TrimSuffix(n.Value, "*")) },
		func(n *node) bool { return n.Value == "" },
	} {
		if i := slices.IndexFunc(nodes, func(n *node) bool { return n.Key == key && ok(n) }); i >= 0 {
			return nodes[i]
		}
	}
	return nil
}

func (n *node) wild() bool { return strings.HasSuffix(n.Value, "*") }

func (n *node) replaces(name string) bool {
	return name != "" && slices.Contains(n.RateLimit.Replaces, replaced{name})
}
