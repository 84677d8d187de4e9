package read

import (
	"slices"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// The fields of the rule language, per mapping. Package language describes the
// same; a test there compares the two.
var (
	documentFields  = []string{"client_ip", "rules", "revision", "regions"}
	clientIPFields  = []string{"trusted_hops", "ipv6_prefix"}
	ruleFields      = []string{"name", "mode", "match", "key", "limit", "limits", "overrides", "algorithm", "align", "min_interval", "charge_denied", "cost", "scope", "fair", "consistency", "overdraft", "on_failure", "timeout", "lease", "headers", "refusal", "retry_jitter"}
	pathFields      = []string{"exact", "prefix", "regex", "template"}
	headerFields    = []string{"exact", "prefix", "regex", "present"}
	partFields      = []string{"client_ip", "header", "query", "const", "else"}
	limitFields     = []string{"count", "per", "burst"}
	overrideFields  = []string{"name", "when", "key", "limit", "limits"}
	costFields      = []string{"header", "default", "max"}
	onFailureFields = []string{"action", "status", "expected_holders"}
	leaseFields     = []string{"interval", "ttl"}
	refusalFields   = []string{"status", "body", "content_type", "grpc_status"}
)

// conditionFields are the fields of a condition.
func conditionFields(in rule.ConditionFields) []string {
	return []string{in.Methods, in.Hosts, "path", in.Headers, "ignore_case", "trailing_slash", "path_parameters"}
}

// Fields returns the field names that the language has, by the path of the
// mapping that has them, with [] for any item and {} for any name.
func Fields() map[string][]string {
	return map[string][]string{
		"":                                  documentFields,
		"client_ip":                         clientIPFields,
		"rules[]":                           ruleFields,
		"rules[].match":                     conditionFields(rule.MatchFields),
		"rules[].match.path":                pathFields,
		"rules[].match.headers{}":           headerFields,
		"rules[].key[]":                     partFields,
		"rules[].key[].client_ip":           clientIPFields,
		"rules[].limit":                     limitFields,
		"rules[].limits[]":                  limitFields,
		"rules[].overrides[]":               overrideFields,
		"rules[].overrides[].when":          conditionFields(rule.WhenFields),
		"rules[].overrides[].when.path":     pathFields,
		"rules[].overrides[].when.header{}": headerFields,
		"rules[].overrides[].limit":         limitFields,
		"rules[].overrides[].limits[]":      limitFields,
		"rules[].cost":                      costFields,
		"rules[].on_failure":                onFailureFields,
		"rules[].lease":                     leaseFields,
		"rules[].refusal":                   refusalFields,
	}
}

// reserved is a field that people write and the language does not have there.
type reserved struct{ name, reason string }

// unsupported is a field of the language that this version does not have.
func unsupported(name, instead string) reserved {
	return reserved{name, "is not supported in this version; " + instead}
}

var (
	reservedInRule = []reserved{
		unsupported("percent", "leave it out, and use mode: shadow to try a rule"),
		unsupported("variants", "leave it out; overrides with when give some requests another limit"),
		{"x_ratelimit", "is written headers; write headers: [draft, x-draft03], or [draft, x-unix]"},
		{"burst", "is part of the limit; write it there, such as limit: { count: 5, per: 1m, burst: 10 }"},
	}
	reservedInPart = []reserved{
		{"path", "takes nothing, every request has one; write path alone, without braces"},
		{"method", "takes nothing, every request has one; write method alone, without braces"},
		unsupported("cookie", "write header with a header that your gateway derives from the cookie"),
		unsupported("jwt", "write header with a header that Envoy's jwt_authn filter copies the claim to"),
		unsupported("metadata", "write header with a header that carries the value"),
		unsupported("san", "write header with a header that carries the client certificate's name"),
		unsupported("route", "write path"),
		unsupported("host", "write match.hosts, one rule for each host"),
	}
)

// object checks that v is a mapping with known fields only.
func object(v strict.Value, known []string, others ...reserved) bool {
	if v.Kind() != strict.Object {
		return v.Object(known...)
	}
	for _, name := range v.Names() {
		if slices.Contains(known, name) {
			continue
		}
		if i := slices.IndexFunc(others, func(r reserved) bool { return r.name == name }); i >= 0 {
			v.FailName(name, others[i].reason)
		} else {
			v.Unknown(name, known)
		}
	}
	return true
}
