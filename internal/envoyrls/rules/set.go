// Package rules has the rules of descriptors of Envoy's rate limit service: those of a configuration of envoyproxy/ratelimit,
// those of the rules file with bindings, and limits that requests bring.
package rules

import (
	"strings"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"

	"github.com/weirlimit/weir/internal/envoyrls/binding"
	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/envoyrls/metrics"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/service"
)

// Config is what rules are made with, beside their files.
type Config struct {
	// Consistency, OnFailure, ChargeRejected and Replicas (among which a limit is shared under
	// on_failure: local) are those of the limits of a configuration, and of requests.
	Consistency    lease.Consistency
	OnFailure      lease.OnFailure
	ChargeRejected bool
	Replicas       int64
	// Quota treats each of them as if it had quota_mode.
	Quota bool

	File    *service.Service // has the rules of the rules file in their current version
	Metrics *metrics.Metrics
}

// Set is the rules in force. It is immutable, replaced as a whole, and safe for concurrent use.
type Set struct {
	Config   *descriptor.Config // without domains as long as there is none
	Bindings *binding.Set       // none as long as there is no file

	cfg   *Config
	rules map[*descriptor.Rule]*Rule // of Config
	bound [][]*Rule                  // by index of the binding, see resolve
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

// WithBindings is the set with other bindings, or with these after a change of the rules file.
func (s *Set) WithBindings(b *binding.Set) *Set {
	now := *s
	now.Bindings, now.bound = b, make([][]*Rule, b.Len())
	for one := range b.All() {
		now.bound[one.Index] = s.cfg.resolve(one)
	}
	return &now
}

// Check returns the bindings whose rule cannot be bound as errors, and the number of
// bindings whose rule is off.
func (s *Set) Check() (errs strict.Errors, off int) {
	return s.Bindings.Check(s.cfg.File.Expanded)
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
	return func(name string) bool { return names[name] || s.cfg.File.Policy(name, 0, nil) != nil }
}

// Match finds the rule of a descriptor of a domain that the set has, nil if there is none,
// and appends the key of its counter to keys. beside are more rules that count the descriptor by
// this key. own is the limit that the descriptor brings, nil if it brings none. The error is why
// that is rejected.
//
// A binding comes before any rule of the same descriptor in the configuration. A descriptor
// with its own limit is not bound. The match, cost and overrides by header of a bound rule do
// not apply, because there is no HTTP request to match. It counts on each rule that this one was
// expanded into.
func (s *Set) Match(domain string, entries []descriptor.Entry, own *ratelimitpb.RateLimitDescriptor_RateLimitOverride, keys []byte) (r *Rule, beside []*Rule, _ []byte, _ error) {
	r = s.rules[s.Config.Match(domain, entries)] // nil of nil
	at := len(keys)
	if own != nil {
		of, err := s.cfg.override(domain, r, own)
		if err != nil {
			return nil, nil, keys, err
		}
		r = of
	} else if b := s.Bindings.Find(domain, entries); b != nil {
		if bound := s.bound[b.Index]; bound != nil {
			keys = bound[0].appendKey(keys, entries)
			if bound = s.cfg.ofKey(bound, keys[at:]); len(bound) == 0 {
				return nil, nil, keys, nil
			}
			return bound[0], bound[1:], keys, nil
		}
		s.cfg.Metrics.Unmatched.WithLabelValues("binding").Inc()
	}
	if r != nil && r.Policy != nil {
		keys = r.appendKey(keys, entries)
	}
	return r, nil, keys, nil
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
