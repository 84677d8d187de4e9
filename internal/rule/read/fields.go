package read

// The fields of the rule language, per mapping. Package language describes the
// same; a test compares the two. The tests of a document are read by package ruletests.
var (
	documentFields  = []string{"client_ip", "rules", "revision", "regions", "seed", "candidates", "tests"}
	clientIPFields  = []string{"trusted_hops", "ipv6_prefix"}
	ruleFields      = []string{"name", "mode", "match", "exempts", "percent", "key", "hash", "shed", "limit", "limits", "overrides", "variants", "algorithm", "align", "min_interval", "charge_rejected", "cost", "count", "on_limit", "scope", "sharing", "consistency", "overdraft", "on_failure", "timeout", "lease", "headers", "rejection", "retry_jitter", "hide_keys"}
	pathFields      = []string{"exact", "prefix", "regex", "template"}
	namedFields     = []string{"exact", "prefix", "regex", "present"}
	partFields      = []string{"client_ip", "header", "query", "cookie", "segment", "claim", "metadata", "label", "const", "host", "san", "route", "region", "else"}
	percentFields   = []string{"from", "to"}
	limitFields     = []string{"count", "per", "burst", "zone", "anchor"}
	overrideFields  = []string{"name", "when", "key", "hash", "limit", "limits", "until"}
	variantFields   = []string{"name", "weight", "algorithm", "limit", "limits", "consistency"}
	candidateFields = []string{"rule", "limit", "until"}
	onLimitFields   = []string{"block"}
	countFields     = []string{"status", "grpc_status"}
	costFields      = []string{"header", "metadata", "default", "max", "estimate", "actual", "max_stream"}
	statedFields    = costFields[:4] // of a cost that is known with the request
	settledFields   = costFields[3:] // and of one that the response settles
	metadataFields  = []string{"namespace", "key"}
	onFailureFields = []string{"action", "status", "expected_pops"}
	leaseFields     = []string{"interval", "ttl"}
	shedFields      = []string{"capacity", "profile", "success", "classes", "shares"}
	classFields     = []string{"class", "match"}
	shareFields     = []string{"normal", "low", "bulk"}
	rejectionFields = []string{"status", "body", "content_type", "grpc_status"}
)

// fieldsOfExempt is how many of ruleFields an exempt rule may have: the first ones.
const fieldsOfExempt = 4

// fieldsOfShed are those of ruleFields that a rule with shed may have.
var fieldsOfShed = []string{"name", "mode", "match", "key", "shed", "headers", "hide_keys"}

// What a condition may have under not, and elsewhere.
var (
	notFields = []string{"method", "host", "path", "header", "query", "cookie", "claim", "metadata", "label", "client_ip", "trusted_hops",
		"region", "percent", "until", "ignore_case", "trailing_slash", "path_parameters"}
	matchFields = append(notFields[:len(notFields):len(notFields)], "not")
)
