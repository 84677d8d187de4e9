package envoyrls

import (
	"sync/atomic"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/envoyrls/binding"
	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
)

// bindings are the bindings in force, each with its prepared rule.
//
// A binding comes before any rule of the same descriptor in the configuration of
// envoyproxy/ratelimit. A descriptor with its own limit is not bound. The rule's own
// match, cost and overrides by header do not apply, because there is no HTTP request
// to match.
type bindings struct {
	*binding.Set
	current []atomic.Pointer[prepared] // by index: the rule's version that was used last
}

func newBindings(s *binding.Set) *bindings {
	return &bindings{s, make([]atomic.Pointer[prepared], s.Len())}
}

// check returns the bindings whose rule cannot be bound as errors, and the number of
// bindings whose rule is off.
func (b *bindings) check(find func(name string, key []byte) *engine.Policy) (errs strict.Errors, off int) {
	return b.Check(func(name string) (binding.Target, bool) {
		p := find(name, nil)
		return target(p), p != nil
	})
}

func target(p *engine.Policy) binding.Target {
	if p == nil {
		return binding.Target{}
	}
	return binding.Target{Algorithm: p.Limit.Spec().Algorithm, Parts: len(p.Key), Off: p.Mode == rule.Off}
}

// bind gives a descriptor the rule of the rules file to which it is bound, if any.
func (s *Server) bind(q *query, d *described, i int) {
	b := q.rules.bindings.Find(q.request.Domain, d.entries)
	if b == nil {
		return
	}
	if p := s.resolve(b, &q.rules.bindings.current[b.Index]); p != nil {
		d.rule, q.matches[i] = s.ofKey(q, p, d.entries), nil
	} else {
		s.metrics.noBinding.Inc()
	}
}

// resolve returns the bound rule in its current version. It is nil if the rule is off or
// cannot be bound, see [binding.Binding.Flaw].
func (s *Server) resolve(b *binding.Binding, current *atomic.Pointer[prepared]) *prepared {
	p := s.cfg.Rules(b.Rule, nil)
	if ready := current.Load(); ready != nil && ready.policy == p {
		return ready
	}
	if b.Flaw(target(p), p != nil) != "" || p.Mode == rule.Off {
		return nil
	}
	made := s.prepareNative(p)
	made.binding = b
	current.Store(made)
	return made
}

// ofKey returns a bound rule with the limit of a descriptor's key, if that has one of its own.
func (s *Server) ofKey(q *query, p *prepared, entries []descriptor.Entry) *prepared {
	at := len(q.keys)
	q.keys = p.appendKey(q.keys, entries)
	own := s.cfg.Rules(p.binding.Rule, rule.ShortKey(q.keys[at:]))
	q.keys = q.keys[:at]
	if own == nil || own == p.policy || !own.Same(p.policy) { // the rules have been replaced just now
		return p
	}
	of := *p
	of.policy, of.current = own, currentOf(own.Rule, own.Limit.Spec())
	return &of
}
