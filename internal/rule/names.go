package rule

import (
	"slices"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// The words of the rule language, in the order of the constants they stand for.
var (
	modeNames        = []string{Enforce: "enforce", Shadow: "shadow", Off: "off"}
	scopeNames       = []string{ScopeRegion: "region", ScopePoP: "pop", ScopeGlobal: "global"}
	fairNames        = []string{FairDemand: "demand", FairEqual: "equal"}
	consistencyNames = []string{lease.Leased.String(), lease.Exact.String(), lease.Optimistic.String()}
	onFailureNames   = []string{lease.FailureAllow.String(), lease.FailureDeny.String(), lease.FailureLocal.String()}
	xRateLimitNames  = []string{XRateLimitOff: "off", XRateLimitDraft03: "draft03", XRateLimitUnix: "unix"}
	fromNames        = []string{FromClientIP: "client_ip", FromHeader: "header", FromPath: "path",
		FromMethod: "method", FromQuery: "query", FromConst: "const"}
	algorithmNames = []string{limit.TokenBucket: "token_bucket", limit.FixedWindow: "fixed_window",
		limit.SlidingWindow: "sliding_window", limit.SlidingLog: "sliding_log", limit.Concurrency: "concurrency"}
	opNames       = []string{OpExact: "exact", OpPrefix: "prefix", OpRegex: "regex", OpPresent: "present", OpAbsent: "present", OpTemplate: "template"}
	spellingNames = []string{"exact", "ignore"}
	alignNames    = []string{limit.AlignClock: "clock", limit.AlignFirstRequest: "first_request"}
)

// String returns the word of the rule language.
func (m Mode) String() string { return name(modeNames, int(m)) }

// String returns the word of the rule language.
func (s Scope) String() string { return name(scopeNames, int(s)) }

// String returns the word of the rule language.
func (f Fair) String() string { return name(fairNames, int(f)) }

// String returns the word of the rule language.
func (x XRateLimit) String() string { return name(xRateLimitNames, int(x)) }

// String returns the word of the rule language.
func (f From) String() string { return name(fromNames, int(f)) }

// ConsistencyOf returns the consistency of a word of the rule language; of any other word
// the default.
func ConsistencyOf(word string) lease.Consistency {
	return lease.Consistency(max(0, slices.Index(consistencyNames, word)))
}

// ConsistencyName returns the word of the rule language.
func ConsistencyName(c lease.Consistency) string { return name(consistencyNames, int(c)) }

// OnFailureOf returns the action of a word of the rule language; of any other word the
// default.
func OnFailureOf(word string) lease.OnFailure {
	return lease.OnFailure(max(0, slices.Index(onFailureNames, word)))
}

func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return "unknown"
}

// The fields of the rule language, per mapping. The JSON Schema of package
// rulefile has the same; a test there compares the two.
var (
	documentFields  = []string{"client_ip", "rules", "revision", "regions"}
	clientIPFields  = []string{"trusted_hops", "ipv6_prefix"}
	ruleFields      = []string{"name", "mode", "match", "key", "limit", "overrides", "algorithm", "align", "min_interval", "charge_denied", "cost", "scope", "fair", "consistency", "overdraft", "on_failure", "timeout", "lease", "x_ratelimit"}
	matchFields     = []string{"methods", "hosts", "path", "headers", "ignore_case", "trailing_slash", "path_parameters"}
	whenFields      = []string{"method", "host", "path", "header", "ignore_case", "trailing_slash", "path_parameters"}
	pathFields      = []string{"exact", "prefix", "regex", "template"}
	headerFields    = []string{"exact", "prefix", "regex", "present"}
	partFields      = []string{"client_ip", "header", "query", "const", "else"}
	limitFields     = []string{"count", "per", "burst"}
	overrideFields  = []string{"name", "when", "key", "limit"}
	costFields      = []string{"header", "default", "max"}
	onFailureFields = []string{"action", "status", "expected_holders"}
	leaseFields     = []string{"interval", "ttl"}
)

// Fields returns the field names that the language has, by the path of the
// mapping that has them, with [] for any item and {} for any name.
func Fields() map[string][]string {
	return map[string][]string{
		"":                                  documentFields,
		"client_ip":                         clientIPFields,
		"rules[]":                           ruleFields,
		"rules[].match":                     matchFields,
		"rules[].match.path":                pathFields,
		"rules[].match.headers{}":           headerFields,
		"rules[].key[]":                     partFields,
		"rules[].key[].client_ip":           clientIPFields,
		"rules[].limit":                     limitFields,
		"rules[].overrides[]":               overrideFields,
		"rules[].overrides[].when":          whenFields,
		"rules[].overrides[].when.path":     pathFields,
		"rules[].overrides[].when.header{}": headerFields,
		"rules[].overrides[].limit":         limitFields,
		"rules[].cost":                      costFields,
		"rules[].on_failure":                onFailureFields,
		"rules[].lease":                     leaseFields,
	}
}
