// Package rules has the rules by which descriptors of Envoy's rate limit service are decided:
// those of a configuration of envoyproxy/ratelimit, those of the rules file to which
// descriptors are bound, and limits that requests bring.
package rules

import (
	"strings"
	"sync/atomic"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/envoyrls/binding"
	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/envoyrls/metrics"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// Config is what rules are made with, beside their files.
type Config struct {
	// Consistency, OnFailure, ChargeDenied and Replicas (among which a limit is shared under
	// on_failure: local) are those of the limits of a configuration, and of requests.
	Consistency  lease.Consistency
	OnFailure    lease.OnFailure
	ChargeDenied bool
	Replicas     int64
	// Quota treats each of them as if it had quota_mode.
	Quota bool

	// Find finds a rule of the rules file by its name, in its current version; with a key,
	// in its short form, the limit of that key, if it has one of its own.
	Find    func(name string, key []byte) *engine.Policy
	Metrics *metrics.Metrics
}

// Set is the rules in force. It is immutable, replaced as a whole, and safe for concurrent use.
type Set struct {
	Config   *descriptor.Config // without domains as long as there is none
	Bindings *binding.Set       // none as long as there is no file

	cfg   *Config
	rules map[*descriptor.Rule]*Rule // of Config
	bound []atomic.Pointer[Rule]     // by index of the binding: the rule's version that was used last
}

// New makes a set without rules.
func New(cfg Config) *Set {
	none, _ := descriptor.Parse(nil, descriptor.Options{})
	return &Set{Config: none, Bindings: new(binding.Set), cfg: &cfg}
}

// WithConfig is the set with another configuration.
func (s *Set) WithConfig(c *descriptor.Config) *Set {
	now := *s
	now.Config, now.rules = c, map[*descriptor.Rule]*Rule{}
	for r := range c.Rules() {
		now.rules[r] = s.cfg.prepare(r)
	}
	return &now
}

// WithBindings is the set with other bindings.
func (s *Set) WithBindings(b *binding.Set) *Set {
	now := *s
	now.Bindings, now.bound = b, make([]atomic.Pointer[Rule], b.Len())
	return &now
}

// Check returns the bindings whose rule cannot be bound as errors, and the number of
// bindings whose rule is off.
func (s *Set) Check() (errs strict.Errors, off int) {
	return s.Bindings.Check(func(name string) (binding.Target, bool) {
		p := s.cfg.Find(name, nil)
		return target(p), p != nil
	})
}

// Domain reports whether there are rules for a domain.
func (s *Set) Domain(name string) bool { return s.Config.Domain(name) || s.Bindings.Domain(name) }

// Live returns whether a rule, or a domain by the name of its counters, is in force.
func (s *Set) Live() func(name string) bool {
	names := map[string]bool{}
	for r := range s.rules {
		names[r.Path] = true
		if domain, _, ok := strings.Cut(r.Path, "|"); ok {
			names[domain+"|"] = true // see domainName
		}
	}
	return func(name string) bool { return names[name] || s.cfg.Find(name, nil) != nil }
}

// Match finds the rule of a descriptor of a domain that the set has, nil if there is none,
// and appends the key of its counter to keys. own is the limit that the descriptor brings,
// nil if it brings none. The error is why that is refused.
//
// A binding comes before any rule of the same descriptor in the configuration. A descriptor
// with its own limit is not bound. The match, cost and overrides by header of a bound rule do
// not apply, because there is no HTTP request to match.
func (s *Set) Match(domain string, entries []descriptor.Entry, own *ratelimitpb.RateLimitDescriptor_RateLimitOverride, keys []byte) (*Rule, []byte, error) {
	r := s.rules[s.Config.Match(domain, entries)] // nil of nil
	at := len(keys)
	if own != nil {
		of, err := s.cfg.override(domain, r, own)
		if err != nil {
			return nil, keys, err
		}
		r = of
	} else if b := s.Bindings.Find(domain, entries); b != nil {
		if bound := s.resolve(b); bound != nil {
			keys = bound.appendKey(keys, entries)
			return s.cfg.ofKey(bound, keys[at:]), keys, nil
		}
		s.cfg.Metrics.NoBinding.Inc()
	}
	if r != nil && r.Policy != nil {
		keys = r.appendKey(keys, entries)
	}
	return r, keys, nil
}

// appendKey appends the key of a descriptor's counter, in its short form.
func (r *Rule) appendKey(dst []byte, entries []descriptor.Entry) []byte {
	at := len(dst)
	switch {
	case r.binding != nil:
		dst = r.binding.AppendKey(dst, r.Policy.Key, entries)
	case r.Of != nil:
		dst = r.Of.AppendKey(dst, entries)
	default:
		dst = appendOverrideKey(dst, entries)
	}
	return dst[:at+len(rule.ShortKey(dst[at:]))] // it shortens in place
}
