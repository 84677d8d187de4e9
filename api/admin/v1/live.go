package v1

import "time"

// Seen is whom an answer shows.
type Seen struct {
	Of        string `json:"of" doc:"all regions; region eu; or this replica, of a region without a name."`
	WatchedMs int64  `json:"watched_ms" doc:"For how long somebody has watched. In the first seconds not everybody has reported."`
}

// Status is how a tier does.
type Status struct {
	Seen
	InForce InForce     `json:"in_force"`
	Missing []string    `json:"missing_regions" doc:"Regions that have not reported for 3 s."`
	Members []Member    `json:"members" doc:"All that were heard within a minute: replicas of the aggregator and of regions, and PoPs."`
	Regions []RegionUse `json:"regions,omitempty" doc:"Those that reported within 3 s."`
	Rules   []Use       `json:"rules" doc:"All rules in force; each limit of one with several is one."`
}

// RegionUse is what all rules decide at the PoPs of a region. A request that several rules match counts at each.
type RegionUse struct {
	Region            string  `json:"region" doc:"Empty: it has no name."`
	AdmittedPerSecond float64 `json:"admitted_per_second"`
	DeniedPerSecond   float64 `json:"denied_per_second"`
}

// Member is a replica, or a PoP with all its workers.
type Member struct {
	Kind            string `json:"kind" enum:"pop,region,aggregator"`
	Region          string `json:"region,omitempty"`
	Name            string `json:"name" doc:"Of a replica that of its host."`
	Holder          string `json:"holder" doc:"Names its process, in hexadecimal."`
	Workers         uint32 `json:"workers" doc:"That were heard."`
	Version         string `json:"version" doc:"Of the program, or of the module."`
	RulesVersion    string `json:"rules_version" doc:"Of the rules in force there, of the worker that is behind; empty: none."`
	RulesRevision   uint64 `json:"rules_revision" doc:"0: they have none."`
	RulesAgeMs      uint64 `json:"rules_age_ms"`
	AgeMs           uint64 `json:"age_ms" doc:"Since it started."`
	LastReportMs    uint64 `json:"last_report_ms" doc:"Since its last report."`
	DegradedMs      uint64 `json:"degraded_ms" doc:"For how long the region of a PoP, or the aggregator of a region, has not answered; 0: it does."`
	ReservePerMille uint32 `json:"reserve_per_mille" doc:"Of each limit that the region grants without the aggregator."`
	Keys            uint64 `json:"keys" doc:"In its table."`
	Places          uint64 `json:"places" doc:"Of its table; 0: that is not known."`
	Redis           string `json:"redis,omitempty" doc:"ok, or what is wrong; missing: it has none."`
	Error           string `json:"error,omitempty" doc:"Its last problem."`
	ErrorAgeMs      uint64 `json:"error_age_ms,omitempty" doc:"0: it has it now."`
	Problem         string `json:"problem,omitempty" doc:"What is not well about it; missing: all is."`
}

// MissingAfterMs is the age of a last report, in milliseconds, from which on a member is missing.
const MissingAfterMs = 3000

// The hints of a rule's use.
const (
	HintMatchedNothing = "matched-nothing"
	HintKeyMissing     = "key-missing"
)

// Use is what a rule did, at all PoPs that were heard, since they started.
type Use struct {
	Rule              string  `json:"rule"`
	Mode              string  `json:"mode,omitempty" enum:"enforce,shadow,off,exempt"`
	Limit             string  `json:"limit,omitempty" doc:"In words, such as 5 per minute per client IP."`
	Matched           uint64  `json:"matched" doc:"Requests."`
	NoKey             uint64  `json:"no_key" doc:"Requests that match, and do not have the rule's key."`
	Admitted          uint64  `json:"admitted"`
	Denied            uint64  `json:"denied"`
	ShadowDenied      uint64  `json:"shadow_denied" doc:"That a shadow rule or a candidate would have rejected."`
	Fallback          uint64  `json:"fallback,omitempty" doc:"Of those admitted and denied: decided by on_failure."`
	Shed              uint64  `json:"shed,omitempty" doc:"Of those denied: to shed load."`
	AdmittedPerSecond float64 `json:"admitted_per_second"`
	DeniedPerSecond   float64 `json:"denied_per_second"`
	Used              float64 `json:"used,omitempty" doc:"Rate of the rule's busiest key, divided by its limit; more than 1 is rejected in the end, if each request takes one unit. Missing: that is not known."`
	Hint              string  `json:"hint,omitempty" enum:"matched-nothing,key-missing" doc:"matched-nothing: no request did; key-missing: none had the key."`
}

// Top is what comes most, the first one most.
type Top struct {
	Seen
	Keys  []Rate `json:"keys" doc:"By key and by denied."`
	Rules []Use  `json:"rules" doc:"By rule."`
}

// Rate is how often requests of a key come, or are rejected.
type Rate struct {
	Rule      string  `json:"rule"`
	Override  string  `json:"override,omitempty"`
	Key       string  `json:"key" doc:"As it is counted and written: parts joined by |, invisible bytes as \\xNN, or a hash."`
	From      string  `json:"from,omitempty" doc:"The PoP, or the region, that shows it; missing: all together."`
	PerSecond float64 `json:"per_second" doc:"Over the last seconds."`
	Over      float64 `json:"over" doc:"By how much per_second is too large at most."`
}

// Decisions are some that were made since the event before.
type Decisions struct {
	Items []Decision `json:"items" doc:"The oldest first; of more than per_second chance picks."`
}

// Outcomes are those of decisions, by their numbers; 0: none.
var Outcomes = []string{"", "admitted", "rejected", "fallback", "would-be-rejected"}

// Decision is what became of a request at one rule.
type Decision struct {
	When         time.Time `json:"when"`
	Rule         string    `json:"rule"`
	Override     string    `json:"override,omitempty"`
	Key          string    `json:"key" doc:"As that of a rate."`
	From         string    `json:"from" doc:"The PoP, or the region, that shows it."`
	Outcome      string    `json:"outcome" enum:"admitted,rejected,fallback,would-be-rejected" doc:"fallback: on_failure decided; would-be-rejected: by a shadow rule or a candidate."`
	Remaining    uint64    `json:"remaining" doc:"Units that the PoP knew of."`
	RetryAfterMs uint64    `json:"retry_after_ms,omitempty"`
}

// The names of events of a stream.
const (
	EventStatus    = "status"    // [Status], once a second
	EventTop       = "top"       // [Top], likewise
	EventDecisions = "decisions" // [Decisions], when there are any
	EventRules     = "rules"     // [InForce], at first and when other rules are in force
	EventProblem   = "problem"   // [Problem]: nothing can be shown for now
)
