package twin

import (
	"slices"
	"strings"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

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
