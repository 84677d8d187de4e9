package rules

import (
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/envoyrls/binding"
	"github.com/weirlimit/weir/internal/envoyrls/decision"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// resolve returns the bound rule in its current version. It is nil if the rule is off or
// cannot be bound, see [binding.Binding.Flaw].
func (s *Set) resolve(b *binding.Binding) *Rule {
	current := &s.bound[b.Index]
	p := s.cfg.Find(b.Rule, nil)
	if ready := current.Load(); ready != nil && ready.Policy == p {
		return ready
	}
	if b.Flaw(target(p), p != nil) != "" || p.Mode == rule.Off {
		return nil
	}
	made := s.cfg.prepareBound(p, b)
	current.Store(made)
	return made
}

func target(p *engine.Policy) binding.Target {
	if p == nil {
		return binding.Target{}
	}
	return binding.Target{Algorithm: p.Limit.Spec().Algorithm, Parts: len(p.Key), Off: p.Mode == rule.Off}
}

// prepareBound makes a rule of a rule of the rules file.
func (c *Config) prepareBound(p *engine.Policy, b *binding.Binding) *Rule {
	spec := p.Limit.Spec()
	r := &Rule{binding: b, Policy: p, Counts: c.Metrics.Rule(p.Rule, ""), Current: currentOf(p.Rule, spec)}
	if p.Mode == rule.Shadow {
		r.Mode = decision.Shadow
	}
	if spec.Algorithm == limit.FixedWindow && spec.Align == limit.AlignClock {
		r.Window = spec.Period
	}
	return r
}

// ofKey returns a bound rule with the limit of a key, if that has one of its own.
func (c *Config) ofKey(r *Rule, key []byte) *Rule {
	own := c.Find(r.binding.Rule, key)
	if own == nil || own == r.Policy || !own.Same(r.Policy) { // the rules have been replaced just now
		return r
	}
	of := *r
	of.Policy, of.Current = own, currentOf(own.Rule, own.Limit.Spec())
	return &of
}
