// Package rule is the model of Weir's rules: a rule ([Rule]), a set of rules and its compiled form ([NewSet],
// [Set.Encode]), and the rules that apply to a request ([Set.Match]). Package read reads rules from a document, package
// check defines which are legal.
//
// The same code runs in the Envoy filter and in the region, so both always agree. It is pure, as are the packages below
// it: no clock, no goroutine, nothing but the standard library, without fmt, encoding/json and reflect, because the
// filter's size is Envoy's start-up time.
//
// All rules that match a request apply to it; it passes when every one admits it.
//
// # Parts of a request
//
//   - Method: as sent. HTTP methods are case-sensitive, but some services ignore case; so does a match with
//     ignore_case.
//   - Host: :authority without its port and without a dot at the end, in any case.
//   - Path: :path up to '?' or '#', byte for byte. Envoy normalises it before (see normalize_path and merge_slashes in
//     its configuration) and routes by the same text; a second normalisation here could only disagree. Services often
//     treat more paths as equal, and so can a match: letters of any case, a slash at the end, path parameters
//     (ignore_case, trailing_slash, path_parameters). These paths then also have one key.
//   - Header: names have no case. A header sent several times is one value, joined by ',' as Envoy joins them, so a
//     repeated header cannot satisfy two conditions. For a key an empty header counts as missing.
//   - Query parameter: all values of its name, joined by ','. Names and values are decoded; a broken encoding is kept.
//   - Cookie: all cookie headers are one list, separated by ';'. Values are kept as sent, and names are case-sensitive.
//   - Claim, certificate, route: verified and chosen by Envoy, see [Fetcher].
//   - Metadata: a value of Envoy's dynamic metadata that an earlier filter has set, by its namespace and its key there.
//   - Region and labels: of the PoP, see [PoP].
//   - Percent: by a hash of the key, so that a client is in or out, see [Percent].
//   - Cost: the largest of the header's values, sent in one header as a list or in several. A value of metadata is
//     read as a header.
//   - Client address: the peer's, or the address that a trusted proxy wrote; never an address from the client. IPv6 by
//     /64 unless the rule sets another prefix. X-Forwarded-For is read as the filter gets it: with use_remote_address,
//     Envoy has appended its own peer, which is hop 1.
//   - A key longer than 96 bytes is replaced by its hash, see [MaxKey].
//
// A rule does not count and does not reject a request that lacks a part of the key, and every else of that part;
// [Matches.MissingKey] reports it.
//
// # Compiled form
//
// It is the rule language itself, as JSON in one canonical spelling: regions send it to PoPs, and it can be bundled in the
// filter's plugin configuration. There is one reader for it and for rules files, and one place that defines what is legal,
// so the filter is exactly as strict as `weir rules validate`.
package rule

import (
	"iter"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule/rejection"
	"github.com/weirlimit/weir/internal/rule/settle"
)

// Defaults of a rule. They are part of the rule language and never change within a format
// version, because the compiled form leaves out what is at its default.
//
//	mode           enforce
//	match          every request
//	algorithm      sliding_window; fixed_window with scope: global. A token_bucket has burst = count
//	align          clock
//	cost           1
//	count          every request
//	scope          region
//	consistency    leased; exact for limits of few units, see lease.Few
//	overdraft      1 unit per holder (optimistic)
//	on_failure     allow, in documents with regions local for scope: global; status 503; expected_pops 1
//	timeout        100ms; 500ms with scope: global
//	lease          interval 100ms, ttl 10s
//	headers        draft
//	rejection        status 429, grpc_status 8 (RESOURCE_EXHAUSTED), a problem document
//	retry_jitter   0
//	live           on
//	shed           profile slow, no success rate, shares normal 80, low 60, bulk 40
//	client_ip      the peer's address, IPv6 by /64
const (
	defaultOverdraft     = 1
	defaultDenyStatus    = 503
	defaultExpectedPoPs  = 1
	DefaultTimeout       = 100 * limit.Millisecond
	defaultGlobalTimeout = 500 * limit.Millisecond
	DefaultLeaseInterval = 100 * limit.Millisecond
	defaultIPv6Prefix    = 64
)

// Bounds of a set. They keep a set small enough for every edge.
const (
	MaxRules        = 1000 // rules of a set
	MaxOverrides    = 64   // overrides of a rule with a condition
	MaxWindows      = 8    // windows of a rule
	MaxVariants     = 8    // variants of a rule
	MaxCandidates   = 4    // candidates of a set
	MaxParts        = 8    // parts of a key
	MaxSources      = 4    // sources of a part: one, and three else
	MaxAlternatives = 64   // of each kind in a match: methods, hosts, paths, networks, ...
	MaxName         = 64   // bytes of a rule's name as it is written
	MaxSuffix       = 32   // bytes of a suffix of an expanded rule's name
	MaxSuffixes     = 2    // suffixes of a name
	MaxText         = 1024 // bytes of any other text

	// MaxKeyLimits bounds the overrides by key, all rules together. They stay in the tier
	// that counts.
	MaxKeyLimits = 100_000
)

// Rule is one rule. The zero value of a field means its default, see above;
// a [Set] has rules with the defaults filled in. The zero Rule is not legal:
// it has no name and no limit. A rule with mode Exempt has only Name, Mode, Match and Exempts, one
// with Shed only Name, Mode, Match, Key, Shed, Headers and HideKeys.
type Rule struct {
	// Name is unique among the rules of a set: 1 to 64 letters, digits, '-' and
	// '_', and of a rule that was expanded its suffixes, see [Written]. It appears in
	// response headers, metrics and logs.
	Name string
	Mode Mode
	// Exempts names the rules that an Exempt rule lifts; none of them is exempt, and empty
	// means all other rules of the set. Only with mode Exempt.
	Exempts []string
	// Match selects the requests that the rule applies to.
	Match Match
	// Key selects the requests that are counted together. An empty key counts all
	// requests together.
	Key []Part
	// Hash replaces each key by its hash under a [Secret]. Only with a key.
	Hash bool
	// Shed is what the rule has in place of limits; nil: it has limits, or is Exempt. Key only
	// tells then whose requests are rejected together: a request that lacks it is not left out.
	Shed *Shed
	// Limits holds the base limit at 0 and the override i at i+1; at least one, but none with
	// mode Exempt or Shed.
	// The first override whose When holds is used, else the base limit. All agree
	// in everything but Count, Period and Burst. Each states its algorithm: the zero value
	// is a token bucket, which is no default here.
	Limits []Variant
	// Keys are the overrides by key: limits of single keys, which replace the base limit.
	// Only the tier that counts the key has them, see [Set.Encode].
	Keys []KeyLimit
	Cost Cost
	// Count selects the responses that count. Not with limit.SlidingLog or limit.Concurrency.
	Count settle.Count

	Scope Scope
	// Sharing is how regions share the limit while it is too small for all of them. Only with
	// ScopeGlobal, and SharingEqual only for a token bucket or a fixed window.
	Sharing     Sharing
	Consistency lease.Consistency
	// SmallExact is true if the document states no consistency: limits of few units are exact, see [Rule.ConsistencyOf].
	SmallExact bool
	// Overdraft is how many units each holder may admit while its question is in
	// flight; 1 to limit.MaxCount. Only with lease.Optimistic.
	Overdraft int64

	OnFailure lease.OnFailure
	// DenyStatus is the HTTP status of a request that is rejected because something
	// failed, not because of its limit: 503, or 429 for clients that understand
	// nothing else. Only lease.FailureDeny may change it.
	DenyStatus int
	// ExpectedPoPs divides the limit under lease.FailureLocal while the
	// number of holders is unknown; 1 to 100,000. Only then may it be changed.
	ExpectedPoPs int64
	// Timeout is how long a request waits for the region or the aggregator, counted from its
	// arrival; 1 ms to 1 s, whole milliseconds.
	Timeout limit.Micros
	// LeaseInterval is the least time between two asks of a holder for a key after it
	// got less than it wanted; 100 ms to 10 s, whole milliseconds.
	LeaseInterval limit.Micros

	// Headers are what clients see of the rule, and Rejection what a rejected one gets.
	Headers   Headers
	Rejection rejection.Form
	// RetryJitter is up to how many percent of the wait are added to Retry-After, at random
	// for each rejection; 0 to 100.
	RetryJitter int64
	// HideKeys keeps the rule's keys out of live reporting and of the access log.
	HideKeys bool
}

// Specs are all limits of the rule: the base limit and those of overrides.
func (r *Rule) Specs() iter.Seq[*limit.Spec] {
	return func(yield func(*limit.Spec) bool) {
		for i := range r.Limits {
			if !yield(&r.Limits[i].Limit) {
				return
			}
		}
		for i := range r.Keys {
			if !yield(&r.Keys[i].Limit) {
				return
			}
		}
	}
}

// ConsistencyOf is the consistency of one of the rule's limits. Limits of single keys have that of the base limit.
func (r *Rule) ConsistencyOf(s limit.Spec) lease.Consistency {
	if r.SmallExact && r.Scope != ScopePoP && lease.Few(s, r.Scope == ScopeGlobal) {
		return lease.Exact
	}
	return r.Consistency
}

// Limited reports whether the rule has a limit and so counts: it is neither Exempt nor has Shed.
func (r *Rule) Limited() bool { return r.Mode != Exempt && r.Shed == nil }

// Concurrent reports whether the rule's limits count slots in use, not units spent.
func (r *Rule) Concurrent() bool {
	return len(r.Limits) > 0 && r.Limits[0].Limit.Algorithm == limit.Concurrency
}

// Variant is a limit, and the requests that it is for: the base limit or an override.
type Variant struct {
	// Name names the counters of an override; letters, digits, '-' and '_', unique
	// among the overrides of the rule. Empty: When names them. Empty for the base limit.
	Name  string
	When  Match // zero for the base limit, never for an override
	Limit limit.Spec
	// Unlimited is set for an override without a limit: the rule does not apply to its
	// requests. Limit is the base limit then.
	Unlimited bool
}

// KeyLimit is the limit of one key. It agrees with the rule's base limit in everything but
// Count and Burst, so that it counts on the same counter.
type KeyLimit struct {
	Key   []string // as [Rule.KeyOf] takes it
	Limit limit.Spec
	// Unlimited is set for a key that is not counted at all. Limit is the base limit then.
	Unlimited bool
	Name      string // as of an override in Limits, whose names are others
	// Until is when the key has the base limit again, in µs since 1970 by the clock of the tier
	// that counts, whole seconds; 0: never.
	Until limit.Micros
}

// Mode is the effect of a rule's decisions. The zero value is enforce.
type Mode uint8

// The modes.
const (
	enforce Mode = iota
	Shadow       // decided and reported, but nothing is rejected
	Off          // checked, but not evaluated
	Exempt       // what it matches is not decided by the rules that it lifts
)

// Scope is who shares a rule's counters. The zero value is ScopeRegion.
type Scope uint8

// The scopes.
const (
	ScopeRegion Scope = iota
	ScopePoP          // one Envoy process
	ScopeGlobal       // all regions
)

// Sharing is how regions share a limit that is too small for all of them. The zero value is
// SharingProportional.
type Sharing uint8

// The ways to share.
const (
	SharingProportional Sharing = iota // in proportion to what each demands, as one exact limiter would
	SharingEqual                       // max-min: no region gets more than an equal part while another gets less than it demands
)

// defaultTimeout is how long a request waits by default: other regions are farther away.
func (s Scope) defaultTimeout() limit.Micros {
	if s == ScopeGlobal {
		return defaultGlobalTimeout
	}
	return DefaultTimeout
}

// DefaultAlgorithm is the algorithm of a rule whose document states none. A sliding window
// admits what a limit says to a person. Of a limit that regions share, only the next window
// of a fixed one can be leased before it begins.
func (s Scope) DefaultAlgorithm() limit.Algorithm {
	if s == ScopeGlobal {
		return limit.FixedWindow
	}
	return limit.SlidingWindow
}

// DefaultOnFailure is the on_failure of a rule whose document states none.
func (s Scope) DefaultOnFailure(regions Regions) lease.OnFailure {
	if s == ScopeGlobal && len(regions) > 0 {
		return lease.FailureLocal
	}
	return lease.FailureAllow
}

// Headers are the forms in which responses state the rule, one bit each: Draft, and one of
// those of XRateLimit; or HeadersOff alone. The zero value is Draft.
type Headers uint8

// The forms of headers, in the order of [HeaderWords].
const (
	Draft      Headers = 1 << iota // RateLimit and RateLimit-Policy
	xDraft03                       // X-RateLimit-*, the reset in seconds from now
	XUnix                          // X-RateLimit-*, the reset as a Unix timestamp
	HeadersOff                     // none: clients are not told that there is the rule

	XRateLimit = xDraft03 | XUnix
	AnyHeaders = Draft | XRateLimit | HeadersOff // any rule has one of these
)

// Cost is how many units a request costs. The zero value is 1 unit. With Actual the other fields are an estimate, which a
// request reserves until its response states the actual cost.
type Cost struct {
	// By is the header or the metadata that states the cost; without a name the cost is
	// Default for every request.
	By Source
	// Default is the cost without the header; 1 to limit.MaxCount, 0 means 1.
	Default int64
	// Max is the most that By may state, Default to limit.MaxCount; 0 without
	// By. Of several values the largest counts. A header that states more, or no
	// number, costs Max: no broken or hostile value is cheaper than an honest one. A
	// header that states 0 costs 1.
	Max int64
	// Actual is where the response states the cost. Not with limit.SlidingLog or limit.Concurrency.
	Actual settle.Actual
}

// Settles reports whether responses decide what requests have cost, or whether they count.
func (r *Rule) Settles() bool { return r.Count.ByResponse() || r.Cost.Actual.Stated() }

// Settle returns how many units a request has used that took so many, by its response at the end of the stream.
func (r *Rule) Settle(by *settle.Response, taken int64) int64 {
	if counts, _ := r.Count.Settle(by); !counts {
		return 0
	}
	used, _, _ := r.Cost.Actual.Settle(by, taken)
	return used
}

// Most returns the most that a request takes before its response.
func (c Cost) Most() int64 { return max(c.Default, c.Max, 1) }

// Part is one part of a key: the first of its sources that the request has. A
// request that has none does not match the rule; it is reported as
// [Matches.MissingKey]. At least one source, at most 4.
type Part []Source

// Source is where a part of a key comes from.
type Source struct {
	From From
	// Name is the header (lower case), the cookie, the query parameter, the claim, the label, the
	// {placeholder} of the rule's path templates or the constant; of metadata NAMESPACE:KEY.
	Name string
	// IPv6Prefix is how many bits of an IPv6 client address count; 1 to 128,
	// 0 means 64: one customer has at least that many addresses.
	IPv6Prefix int
	// TrustedHops, 1 to 16, takes the client's address from X-Forwarded-For: the
	// TrustedHops-th from the right, which the outermost trusted proxy wrote. 0 is
	// the peer's address. Anything further left is the client's own claim and is
	// never used.
	TrustedHops int
}

// From is the kind of a [Source].
type From uint8

// The kinds of sources.
const (
	FromClientIP From = iota
	FromHeader
	FromPath
	FromMethod
	FromQuery
	FromConst
	FromCookie
	FromSegment // what stands for {Name} in the path; each path of the rule is a template that has it
	FromHost    // in lower case, without port
	FromClaim
	FromSAN // of the client's certificate
	FromRoute
	FromRegion
	FromLabel
	FromMetadata // a value of dynamic metadata, which an earlier filter of Envoy has set
)
