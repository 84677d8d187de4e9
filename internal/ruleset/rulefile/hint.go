package rulefile

import (
	"regexp"
	"strings"

	"github.com/weirlimit/weir/internal/rule/strict"
)

// People write first what other rate limiters call things. The reader, which is part of the filter, says what is legal;
// for a rules file the hints below say what the author most likely means.

const convertHint = "this is from a configuration of envoyproxy/ratelimit, which `weir convert` turns into rules"

// hints by the name of an unknown field.
var fieldHints = map[string]string{
	"action":              "write on_failure for what happens without the region; a request above the limit is refused",
	"algorithm_type":      "write algorithm",
	"anonymous":           "write else: client_ip in the key",
	"burst":               "write it in the limit, such as limit: { count: 5, per: 1m, burst: 10 }, with algorithm: token_bucket",
	"capacity":            "write shed: { capacity: 200 }",
	"claim":               "write match: { claim: { plan: gold } }",
	"comment":             "write it behind a #",
	"conditions":          "write match",
	"config":              "write the fields themselves, without config",
	"cookie":              "write match: { cookie: { beta: { present: true } } }",
	"count":               "write limit: 5/1m",
	"day":                 "write limit: 5/1d",
	"default":             "write else",
	"description":         "write it behind a #",
	"descriptors":         convertHint,
	"dimensions":          "write key",
	"domain":              convertHint,
	"dry_run":             "write mode: shadow",
	"enabled":             "write mode: off, or leave it out",
	"error_code":          "write rejection: { status: 429 }",
	"error_message":       "write rejection: { body: Slow down, content_type: text/plain }",
	"except":              "write a rule with mode: exempt",
	"exclude":             "write a rule with mode: exempt",
	"exempt":              "write a rule with mode: exempt",
	"failure_mode_deny":   "write on_failure: deny",
	"fault_tolerant":      "write on_failure: allow",
	"header":              "write match: { header: { x-tier: gold } }",
	"hide_client_headers": "write headers: off",
	"host":                "write match: { host: api.example.com }",
	"hour":                "write limit: 5/1h",
	"ip":                  "write client_ip",
	"jwt":                 "write claim, such as { claim: sub }",
	"limit_by":            "write key: [client_ip]",
	"limit_override":      "write overrides",
	"match_type":          "write path: { prefix: /v1/ }",
	"max":                 "write limit: 5/1m",
	"message":             "write rejection: { body: Slow down, content_type: text/plain }",
	"max_concurrency":     "write limit: 20 and algorithm: concurrency for each key or, in shed, capacity: 200 for a PoP",
	"metadata":            "write claim for a claim of a JWT, or header with a header that carries the value",
	"method":              "write match: { method: POST }",
	"minute":              "write limit: 5/1m",
	"month":               "write limit: 5/month",
	"namespace":           "write name",
	"not":                 "write it in match or when, and not within another not",
	"overload":            "write shed: { capacity: 200 }",
	"path":                "write match: { path: /login }",
	"path_prefix":         "write path: { prefix: /v1/ }",
	"per":                 "write limit: 5/1m",
	"period":              "write per, as in { count: 5, per: 1m }",
	"policy":              "write scope: pop for one Envoy, region, or global",
	"prefix":              "write path: { prefix: /v1/ }",
	"priority":            "leave it out: all rules that match apply; for what is refused last under load, write shed and its classes",
	"rate":                "write limit: 5/1m",
	"rate_limit":          convertHint,
	"regex":               "write path: { regex: '/v[0-9]+/.*' }",
	"remote_address":      "write client_ip",
	"replaces":            convertHint,
	"requests":            "write count, as in { count: 5, per: 1m }",
	"requests_per_unit":   convertHint,
	"rollout":             "write percent: 20",
	"second":              "write limit: 5/1s",
	"shadow":              "write mode: shadow",
	"shadow_mode":         "write mode: shadow",
	"sleep_on_jitter":     "write retry_jitter",
	"status":              "write rejection: { status: 429 }",
	"status_code":         "write rejection: { status: 429 }",
	"unit":                convertHint,
	"unless":              "write a rule with mode: exempt",
	"unlimited":           convertHint + "; a rule with mode: exempt lifts others",
	"until":               `write match: { until: "2026-12-01T00:00:00Z" }`,
	"uri":                 "write path",
	"url":                 "write path",
	"whitelist":           "write a rule with mode: exempt",
	"window":              "write per, as in { count: 5, per: 1m }",
	"window_size":         "write per, as in { count: 5, per: 1m }",
	"x_ratelimit":         "write headers: [draft, x-draft03], or [draft, x-unix]",
	"year":                "write limit: 5/365d",
}

// partHints are those of a part of a key.
var partHints = map[string]string{
	"method": "write method alone, without braces",
	"path":   "write path alone, without braces, or { segment: id } for one segment of a template",
}

// hints by the field, without its numbers, and by the value, in lower case with _ for each - and blank.
var valueHints = map[string]map[string]string{
	"algorithm": {"gcra": "token_bucket", "leaky_bucket": "token_bucket", "sliding": "sliding_window", "fixed": "fixed_window",
		"bucket": "token_bucket", "concurrent": "concurrency"},
	"consistency": {"strong": "exact", "strict": "exact", "eventual": "optimistic", "async": "optimistic"},
	"mode": {"dry_run": "shadow", "dryrun": "shadow", "monitor": "shadow", "log": "shadow", "report": "shadow", "on": "enforce",
		"enabled": "enforce", "disabled": "off", "block": "enforce", "true": "enforce", "false": "off"},
	"on_failure": {"open": "allow", "fail_open": "allow", "closed": "deny", "fail_closed": "deny", "reject": "deny", "pass": "allow"},
	"headers":    {"none": "off", "false": "off"},
	"headers[]":  {"off": "headers: off"},
	"scope":      {"cluster": "region", "redis": "region", "local": "pop", "node": "pop", "instance": "pop", "all": "global"},
	"key": {"ip": "[client_ip]", "client_ip": "[client_ip]", "remote_address": "[client_ip]",
		"$binary_remote_addr": "[client_ip]", "consumer": "[{ header: x-consumer-id, else: client_ip }]",
		"user": "[{ claim: sub, else: client_ip }]", "credential": "[{ header: x-api-key, else: client_ip }]", "service": "[]", "none": "[]", "global": "[]"},
	"key[]": {"ip": "client_ip", "remote_address": "client_ip", "remote_addr": "client_ip", "source_ip": "client_ip", "address": "client_ip",
		"uri": "path", "url": "path", "authority": "host", "$binary_remote_addr": "client_ip", "verb": "method",
		"consumer": "{ header: x-consumer-id }", "jwt": "{ claim: sub }", "user": "{ claim: sub }"},
}

// advise adds to a mistake what its author most likely means. The text of a hint is code to write, or a sentence.
func advise(e *strict.Error, root *strict.Node) {
	field := e.Path[strings.LastIndexByte(e.Path, '.')+1:]
	if strings.HasPrefix(e.Reason, "unknown field") {
		hint := fieldHints[field]
		if part := partHints[field]; part != "" && strings.Contains(e.Path, ".key[") {
			hint = part
		} else if strings.Contains(e.Path, "overrides[") {
			hint = strings.Replace(hint, "match:", "when:", 1)
		}
		if hint != "" {
			e.Reason = "unknown field; " + hint
		}
		return
	}
	n := root.At(e.Path)
	if n == nil || strings.Contains(e.Reason, "did you mean") {
		return
	}
	name := number.ReplaceAllString(field, "[]")
	hint := valueHints[name][strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(n.Text))]
	switch {
	case n.Kind == strict.List && name == "limit":
		hint = "limits"
	case n.Kind == strict.Object && name == "key":
		hint = "[{ header: x-user-id, else: client_ip }]"
	case n.Kind != strict.String && n.Kind != strict.Bool:
	case (name == "limit" || name == "limits[]") && strings.Contains(e.Reason, "is not a limit"):
		hint = likelyLimit(n.Text)
	case name == "match" || name == "when":
		hint = "{ path: " + n.Text + " }"
	case name == "key[]" && strings.Contains(n.Text, ":"):
		from, of, _ := strings.Cut(n.Text, ":")
		hint = "{ " + strings.TrimSpace(from) + ": " + strings.TrimSpace(of) + " }"
	case name == "key[]" && hint == "" && strings.HasPrefix(strings.ToLower(n.Text), "x-"):
		hint = "{ header: " + strings.ToLower(n.Text) + " }"
	}
	if hint != "" {
		e.Reason += " (did you mean " + hint + "?)"
	}
}

// number is the number of an item in a path.
var number = regexp.MustCompile(`\[\d+\]`)

// spokenLimit is a limit as people say it: 5/min, 5 per minute, 5rpm, 1k/s.
var spokenLimit = regexp.MustCompile(`^([0-9][0-9_,]*)(k?) *(?:r|req|requests)? *(?:/|per|p) *(?:1 *)?(ms|s|sec|second|m|min|minute|h|hr|hour|d|day|w|week|mo|month|y|year)s?$`)

// unitOf is the period of a unit, by its first letters.
var unitOf = map[string]string{"ms": "1ms", "s": "1s", "sec": "1s", "second": "1s", "m": "1m", "min": "1m", "minute": "1m", "h": "1h", "hr": "1h",
	"hour": "1h", "d": "1d", "day": "1d", "w": "week", "week": "week", "mo": "month", "month": "month", "y": "365d", "year": "365d"}

// likelyLimit returns the limit that a text most likely means, "" if it means none.
func likelyLimit(text string) string {
	text = strings.ToLower(strings.TrimSpace(text))
	m := spokenLimit.FindStringSubmatch(text)
	if m == nil {
		return ""
	}
	count := strings.NewReplacer("_", "", ",", "").Replace(m[1])
	if m[2] == "k" {
		count += "000"
	}
	return count + "/" + unitOf[m[3]]
}
