// Package rulebook has the rules of a worker of a PoP: the configuration of the plugin, the rules in force, and each of
// their limits as a [Policy].
//
// Rules are bundled with the configuration or come from the region. All workers of the PoP share them in its
// [table.Store]. Rules have an order, so older rules never replace newer ones. Rules with a mistake are rejected as a
// whole, and not tried again.
//
// The package is pure. Package uplink fetches the rules.
package rulebook

import (
	"cmp"
	"math/bits"
	"strconv"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// Config is the plugin configuration: a JSON object in a google.protobuf.StringValue.
// All fields but region_cluster are optional. Unknown fields, wrong types and values out
// of range are errors. A configuration with an error does not replace an earlier one; where
// there is none, the fields that could be read apply.
//
//	{ "region_cluster": "weir_region", "pop": "fra1", "region": "eu", "before_rules": "allow" }
type Config struct {
	// RegionCluster (region_cluster) is the Envoy cluster of the region's
	// QuotaService; it should use HTTP/2. Required.
	RegionCluster string
	// Authority (authority) is the :authority of calls to it. Default: the name of
	// the cluster.
	Authority string
	// PoP (pop) names this point of presence to the region, for its metrics and
	// logs; at most 128 bytes. Default: empty.
	PoP string
	// Region (region) is the region of this point of presence, for rules that match or key by it:
	// 1 to 64 letters, digits, -, . or _, as --region of the region. Default: empty, which no
	// rule matches.
	Region string
	// Labels (labels) are what else rules may ask about this point of presence: { "tier": "edge" }.
	// At most 16; names as those of regions, values of 1 to 64 bytes. Default: none.
	Labels map[string]string
	// JWTPayload (jwt_payload) is the payload_in_metadata of Envoy's jwt_authn filter, for rules that match
	// or key by a claim: under this name the filter leaves the payload of a token that it has verified; 1 to
	// 256 bytes, as some control planes use the issuer. Default payload.
	JWTPayload string
	// DenyBeforeRules (before_rules: allow | deny) rejects requests with 503 until
	// there are rules. Default allow.
	DenyBeforeRules bool
	// Rules (rules) are in force until the region answers with its own; in the rule
	// language as JSON, exactly as in a rules file: { "rules": [ ... ] }. Default: none.
	Rules *rule.Set
	// RulesEvery (rules_every_ms) is how often the region is asked for newer rules
	// while no reply names its version, in milliseconds; 100 to 3,600,000. When a reply
	// names a newer version, a worker has them fetched at once. Default 500.
	RulesEvery lease.Millis
	// Headers (ratelimit_headers) decides whether responses carry the headers of rules: false
	// is headers: off of every rule, but for bodies. Default true.
	Headers bool
	// SpanTags (span_tags) puts what was decided on each request where Envoy's tracer finds
	// it: filter state weir.rule, weir.outcome, weir.consistency, weir.degraded and, if an override is
	// used, weir.override, for custom tags of its span. It costs each request a call of Envoy for each.
	// Default false.
	SpanTags bool
	// PagesLog2 (table_pages) sizes the table of keys: a power of two from 16 to
	// 32768 pages of at most 32 keys each. All plugins that share a table,
	// because vm_id, name, region, region_cluster and pop are the same, must agree on it. Default 32768.
	PagesLog2 int
	// Error is why the newest configuration was rejected; this one is used in its place.
	Error string

	Hash uint64 // of the text, to recognise a configuration; 0: there is none
}

// configFields are the fields of the plugin configuration.
var configFields = []string{
	"region_cluster", "authority", "pop", "region", "labels", "jwt_payload", "before_rules", "rules", "rules_every_ms",
	"ratelimit_headers", "span_tags", "table_pages",
}

const defaultRulesEvery = 500 // a change is to reach every PoP within a second

// ReadConfig reads a plugin configuration. The error is [strict.Errors] or a
// *[strict.Error], with position and field. With an error the configuration has the fields
// that could be read; where the text is not JSON, the fields before the mistake.
func ReadConfig(text []byte) (Config, error) {
	c := Config{Headers: true, PagesLog2: table.MaxPagesLog2, Hash: max(1, rule.HashText(text))}
	if len(text) == 0 {
		text = []byte("{}")
	}
	var errs strict.Errors
	node, err := strict.ParsePartOfJSON(text)
	c.fields(strict.Root(node, &errs))
	if err == nil {
		err = errs.Err()
	}
	return c.WithDefaults(), err
}

func (c *Config) fields(v strict.Value) {
	if !v.Object(configFields...) {
		return
	}
	const cluster = "the name of an Envoy cluster"
	if v := v.Field("region_cluster"); v.Require(cluster) {
		c.RegionCluster, _ = v.String(cluster)
	}
	c.Authority, _ = v.Field("authority").String("a host name")
	pop := v.Field("pop")
	if name, _ := pop.String("a name"); len(name) <= wire.MaxPop {
		c.PoP = name
	} else {
		pop.Fail("has " + strconv.Itoa(len(name)) + " bytes; write at most " + strconv.Itoa(wire.MaxPop))
	}
	region := v.Field("region")
	if name, ok := region.String("the name of a region"); rule.IsRegion(name) {
		c.Region = name
	} else if ok {
		region.Fail("is no name of a region; write " + rule.RegionForm)
	}
	c.labels(v.Field("labels"))
	c.JWTPayload = text(v.Field("jwt_payload"), maxJWTPayload)
	before, _ := v.Field("before_rules").Enum("allow", "deny")
	c.DenyBeforeRules = before == 1
	if rules := v.Field("rules"); rules.Present() {
		c.Rules = read.Document(rules, nil)
	}
	every, _ := v.Field("rules_every_ms").Int(100, 3_600_000)
	c.RulesEvery = lease.Millis(every)
	if on, ok := v.Field("ratelimit_headers").Bool(); ok {
		c.Headers = on
	}
	c.SpanTags, _ = v.Field("span_tags").Bool()
	pages := v.Field("table_pages")
	switch n, ok := pages.Int(16, 1<<table.MaxPagesLog2); {
	case ok && n&(n-1) != 0:
		pages.Fail("is not a power of two; write 16, 32, 64 ... 32768")
	case ok:
		c.PagesLog2 = bits.TrailingZeros64(uint64(n))
	}
}

// Bounds of what an operator names.
const (
	maxLabels     = 16
	maxLabelValue = 64  // bytes
	maxJWTPayload = 256 // bytes
)

func (c *Config) labels(v strict.Value) {
	if !v.Is(strict.Object, "a mapping such as { tier: edge }") {
		return
	}
	names := v.Names()
	if len(names) > maxLabels {
		v.Fail("has " + strconv.Itoa(len(names)) + " labels; write at most " + strconv.Itoa(maxLabels))
		return
	}
	c.Labels = make(map[string]string, len(names))
	for _, name := range names {
		if !rule.IsRegion(name) {
			v.FailName(name, "is no name of a label; write "+rule.RegionForm)
		} else if value := text(v.Field(name), maxLabelValue); value != "" {
			c.Labels[name] = value
		}
	}
}

// text reads a text of 1 to most bytes; empty if it is absent or a mistake.
func text(v strict.Value, most int) string {
	want := "a text of 1 to " + strconv.Itoa(most) + " bytes"
	s, ok := v.String(want)
	if ok && (s == "" || len(s) > most) {
		v.Fail("has " + strconv.Itoa(len(s)) + " bytes; write " + want)
		return ""
	}
	return s
}

// WithDefaults sets the fields that are not set.
func (c Config) WithDefaults() Config {
	c.Authority, c.JWTPayload = cmp.Or(c.Authority, c.RegionCluster), cmp.Or(c.JWTPayload, "payload")
	c.RulesEvery = cmp.Or(c.RulesEvery, defaultRulesEvery)
	if c.Hash == 0 {
		c.Headers, c.PagesLog2 = true, table.MaxPagesLog2
	}
	return c
}
