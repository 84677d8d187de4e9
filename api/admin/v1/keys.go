package v1

import "time"

// Key names the counters of a rule.
type Key struct {
	Rule    string `json:"rule" doc:"Name as it is written, or of one of the rules that it is expanded into, such as login@1d."`
	Counted string `json:"counted,omitempty" maxLength:"8192" doc:"The key as answers have it: the parts joined by |, invisible bytes as \\xNN, or a hash; of a rule with hash: true also the key itself. Missing for a rule with key: []."`
}

// Region is a region that is declared dead.
type Region struct {
	Region string `json:"region" minLength:"1" maxLength:"64"`
}

// Reset is which counters are reset, and why.
type Reset struct {
	Key
	Why string `json:"why" minLength:"1" maxLength:"2000"`
}

// Peek is which counters are looked at.
type Peek struct {
	Key
	Watch bool `json:"watch,omitempty" doc:"Also what PoPs decide for the key meanwhile: the answer takes 3 s then."`
}

// Counter is what one counter holds: of a rule, an override of it, and a key.
type Counter struct {
	Rule     string     `json:"rule" doc:"In force: a rule with several limits is several, such as login and login@1d."`
	Variant  int        `json:"variant,omitempty" doc:"Place of the override with a condition that counts here, from 1; missing: the rule's own counter."`
	Override string     `json:"override,omitempty" doc:"Name of that override, or of the one by key whose limit the key has."`
	Counted  string     `json:"counted,omitempty" doc:"The key as it is counted; a hash where the rule hashes keys, or where the key is long."`
	OwnLimit bool       `json:"own_limit,omitempty" doc:"The key has the limit of an override by key."`
	Until    *time.Time `json:"until,omitempty" doc:"When that ends."`

	Unlimited bool  `json:"unlimited,omitempty" doc:"Nothing is counted for this key."`
	Slots     bool  `json:"slots,omitempty" doc:"It counts requests in flight."`
	Limit     int64 `json:"limit" doc:"Of a token bucket its burst."`
	Remaining int64 `json:"remaining" doc:"Without what PoPs and replicas have on lease."`
	Out       int64 `json:"out" doc:"Units of leases that did not come back, used or not: no more can be on lease. 0 for slots, and for keys that the aggregator counts."`
	OutMS     int64 `json:"out_ms" doc:"In how many milliseconds the last of these leases ends."`
	// RetryAfterMS is 0 for slots, and for keys that the aggregator counts.
	RetryAfterMS int64 `json:"retry_after_ms,omitempty" doc:"Where nothing remains: in how many milliseconds there is a unit."`
	ResetMS      int64 `json:"reset_ms" doc:"In how many milliseconds the counter is as good as new; of slots unless they are renewed."`
	Blocked      bool  `json:"blocked,omitempty" doc:"The key is blocked until retry_after_ms are over."`
}

// Counters are those of a rule and a key.
type Counters struct {
	Items []Counter  `json:"items" doc:"Of each rule that the rule is expanded into: its own, and those of overrides with a condition in which something is counted."`
	PoPs  []Decision `json:"pops,omitempty" doc:"With watch: the last decision of each PoP that made one meanwhile; at the aggregator of each region."`
}

// Request is a request to explain.
type Request struct {
	Method   string            `json:"method,omitempty" maxLength:"64" default:"GET"`
	URL      string            `json:"url" minLength:"1" maxLength:"8192" doc:"https://host/path?query, or without scheme and host."`
	Headers  map[string]string `json:"headers,omitempty" maxProperties:"100" doc:"A header that is sent several times as one, its values joined by a comma."`
	Client   string            `json:"client,omitempty" maxLength:"64" doc:"Address of the peer, as Envoy sees it."`
	Claims   map[string]string `json:"claims,omitempty" maxProperties:"100" doc:"Of the token, by their dotted paths."`
	Metadata map[string]string `json:"metadata,omitempty" maxProperties:"100" doc:"Dynamic metadata, by NAMESPACE:KEY."`
	SAN      string            `json:"san,omitempty" maxLength:"1024" doc:"Name in the client's certificate."`
	Route    string            `json:"route,omitempty" maxLength:"1024" doc:"Name of Envoy's route."`
	Region   string            `json:"region,omitempty" maxLength:"64" doc:"Of the PoP; missing: that of the program that answers."`
	Labels   map[string]string `json:"labels,omitempty" maxProperties:"100" doc:"Of the PoP."`
	Known    []string          `json:"known,omitzero" maxItems:"500" doc:"Inputs that are known, if not all are: method, host, path, client_ip, san, route, region, header x-tier, claim sub, metadata NAMESPACE:KEY, label tier. What is known and not stated is absent. Missing: all are known."`
}

// Explanation is what becomes of a request.
type Explanation struct {
	InForce InForce     `json:"in_force" doc:"The rules that explain it."`
	Rules   []Explained `json:"rules" doc:"All, in their order."`

	RejectedBy string `json:"rejected_by,omitempty" doc:"The rule that would reject the request, by what its counter holds or, where nobody knows that, because it costs more than the limit. Of several the one that a PoP asks first. A PoP that has units on lease admits it all the same."`
}

// Explained is what becomes of a request by one rule.
type Explained struct {
	Rule    string `json:"rule"`
	Mode    string `json:"mode"`
	Applies bool   `json:"applies"`
	Unknown bool   `json:"unknown,omitempty" doc:"Whether and how it applies depends on needs."`
	Failed  string `json:"failed,omitempty" doc:"The first clause that failed, such as path, header x-tier or not[0]; key: a part of the key is missing; mode: the rule is off."`

	ExemptBy    string `json:"exempt_by,omitempty" doc:"The rule with mode: exempt that lifts this one, which applies otherwise."`
	Override    string `json:"override,omitempty" doc:"Name of the override whose condition holds, or its place; those by key are in counters."`
	Unlimited   bool   `json:"unlimited,omitempty" doc:"This override has no limit: nothing is counted."`
	Counted     string `json:"counted,omitempty" doc:"The key as it is counted; a hash under a secret only for operators."`
	Class       string `json:"class,omitempty" doc:"Of a rule that sheds load and applies: how much the request matters, critical, normal, low or bulk."`
	Cost        int64  `json:"cost,omitempty" doc:"Units that the request costs; missing: the rule does not count it."`
	Limit       *int64 `json:"limit,omitempty" doc:"The most that the limit can hold, of the override or of the key; missing: it has none, or the rule does not count the request."`
	Consistency string `json:"consistency,omitempty" doc:"Of the limit: exact, leased or optimistic; missing: the rule does not count the request, or has scope: pop."`

	Needs []string `json:"needs,omitempty" doc:"Inputs that are not known and that decide whether and how the rule applies."`

	Counters []Counter `json:"counters,omitempty" doc:"What it would be counted on holds now; for operators. Missing: an override on which nothing is counted."`
	Problem  string    `json:"problem,omitempty" doc:"Why there are no counters."`
}
