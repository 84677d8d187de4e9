package rules

import (
	"slices"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/envoyrls/binding"
	"github.com/weirlimit/weir/internal/envoyrls/decision"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// resolve returns the rules that a binding is to: those that the rule of the rules file was expanded into, without
// those that are off. It is nil if there is none: the rules file has no such rule, or has it turned off.
func (c *Config) resolve(b *binding.Binding) (made []*Rule) {
	all := c.File.Expanded(b.Rule)
	if b.Flaw(all) != "" {
		return nil
	}
	for _, r := range all {
		if p := c.File.Policy(r.Name, 0, nil); p != nil && p.Mode != rule.Off {
			made = append(made, c.prepareBound(p, b))
		}
	}
	return made
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

// ofKey returns those of the rules that count a key, each with the limit of that key if it has
// one of its own. The key is in its short form.
func (c *Config) ofKey(all []*Rule, key []byte) []*Rule {
	if key == nil {
		key = []byte{} // that of all requests; without a key percent would not matter
	}
	if !slices.ContainsFunc(all, func(r *Rule) bool { return c.File.Policy(r.Policy.Rule, 0, key) != r.Policy }) {
		return all
	}
	var out []*Rule
	for _, r := range all {
		own := c.File.Policy(r.Policy.Rule, 0, key)
		if own == nil {
			continue
		}
		if own.Same(r.Policy) { // otherwise the rules have been replaced just now
			of, name := *r, own.Rule
			if override := c.File.Override(name, key); override != "" {
				name += "/" + override
			}
			of.Policy, of.Current = own, currentOf(name, own.Limit.Spec())
			if own.Unlimited {
				of.Policy, of.Current = nil, nil
			}
			r = &of
		}
		out = append(out, r)
	}
	return out
}
