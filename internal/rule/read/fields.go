package read

import (
	"slices"

	"github.com/weirlimit/weir/internal/rule/strict"
)

// The fields of the rule language, per mapping. Package language describes the
// same; a test compares the two.
var (
	documentFields  = []string{"client_ip", "rules", "revision", "regions", "seed", "candidates"}
	clientIPFields  = []string{"trusted_hops", "ipv6_prefix"}
	ruleFields      = []string{"name", "mode", "match", "from", "percent", "key", "hash", "limit", "limits", "overrides", "variants", "algorithm", "align", "min_interval", "charge_denied", "cost", "scope", "fair", "consistency", "overdraft", "on_failure", "timeout", "lease", "headers", "refusal", "retry_jitter"}
	pathFields      = []string{"exact", "prefix", "regex", "template"}
	namedFields     = []string{"exact", "prefix", "regex", "present"}
	partFields      = []string{"client_ip", "header", "query", "cookie", "segment", "claim", "label", "const", "host", "san", "route", "region", "else"}
	percentFields   = []string{"from", "to"}
	limitFields     = []string{"count", "per", "burst", "zone", "anchor"}
	overrideFields  = []string{"name", "when", "key", "hash", "limit", "limits", "until"}
	variantFields   = []string{"name", "weight", "algorithm", "limit", "limits", "consistency"}
	candidateFields = []string{"rule", "limit", "until"}
	costFields      = []string{"header", "default", "max"}
	onFailureFields = []string{"action", "status", "expected_holders"}
	leaseFields     = []string{"interval", "ttl"}
	refusalFields   = []string{"status", "body", "content_type", "grpc_status"}
)

// fieldsOfExempt is how many of ruleFields an exempt rule may have: the first ones.
const fieldsOfExempt = 4

// What a condition may have under not, and elsewhere.
var (
	notFields = []string{"method", "host", "path", "header", "query", "cookie", "claim", "label", "client_ip", "trusted_hops",
		"region", "percent", "until", "ignore_case", "trailing_slash", "path_parameters"}
	matchFields = append(notFields[:len(notFields):len(notFields)], "not")
)

// reserved is a field that people write and the language does not have there.
type reserved struct{ name, reason string }

// unsupported is a field of the language that this version does not have.
func unsupported(name, instead string) reserved {
	return reserved{name, "is not supported in this version; " + instead}
}

var (
	reservedInRule = []reserved{
		{"x_ratelimit", "is written headers; write headers: [draft, x-draft03], or [draft, x-unix]"},
		{"burst", "is part of the limit; write it there, such as limit: { count: 5, per: 1m, burst: 10 }, with algorithm: token_bucket"},
	}
	reservedInPart = []reserved{
		takesNothing("path", ", or { segment: id } for one segment of a template"), takesNothing("method", ""),
		{"jwt", "is called claim; write { claim: sub }"},
		unsupported("metadata", "write claim for a claim of a JWT, or header with a header that carries the value"),
	}
)

// takesNothing is a source that people write with a name, and that has none.
func takesNothing(name, more string) reserved {
	return reserved{name, "takes nothing; write " + name + " alone, without braces" + more}
}

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
