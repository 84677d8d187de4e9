package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/wire"
)

// What operators ask of single counters fails with an error that is one of these, and says what to do.
var (
	ErrNoRule    = errors.New("no such rule with a limit is in force here")
	ErrElsewhere = errors.New("the rule is counted elsewhere")
	ErrKey       = errors.New("the key does not fit the rule")
	ErrUndecided = errors.New("the store of the counters did not answer")
)

// Peek reads the counters of a rule, as it is named in its document or in force, for a key: the rule's own, and those
// of overrides by attribute in which something is counted. The key is one text, as [rule.Rule.KeyOf] takes it. A key
// that nobody used has an unused counter. Of a rule with scope: global a region reads what the aggregator has left.
// With [ErrElsewhere] there is one, which has nothing but how the key is counted.
func (s *Service) Peek(ctx context.Context, rule string, key []byte) ([]v1.Counter, error) {
	return s.operate(ctx, engine.Look, rule, key)
}

// Reset empties the counters of a rule for a key, of overrides by attribute too, and returns what Peek does then. What
// is out on lease stays there: at most Limit and Out are admitted after it. Slots in use stay. This replica forgets
// that the key was rejected. Other replicas and PoPs keep rejecting for up to lease.LongestAskAfter and a trip, clients for as
// long as they were told to. After an error some may have been emptied.
func (s *Service) Reset(ctx context.Context, rule string, key []byte) ([]v1.Counter, error) {
	return s.operate(ctx, engine.Reset, rule, key)
}

// operate looks at the counters of a rule and a key, or resets them.
func (s *Service) operate(ctx context.Context, op engine.Op, name string, key []byte) ([]v1.Counter, error) {
	rules, now := s.rules.Load(), s.config.Now()
	if len(rules.expanded[name]) == 0 {
		if s.config.Divides {
			return nil, fmt.Errorf("rule %q: %w; the aggregator has rules with scope: global only, ask a region for others", name, ErrNoRule)
		}
		return nil, fmt.Errorf("rule %q: %w", name, ErrNoRule)
	}
	var all []v1.Counter
	var asks []engine.Ask
	var of []int // the counter of each ask
	for _, r := range rules.expanded[name] {
		name := r.Name
		counted, err := rules.counters(name, key, now)
		if err != nil {
			return nil, fmt.Errorf("rule %q: %w", name, err)
		}
		if err := s.mayOperate(op, counted[0].policy); err != nil {
			return []v1.Counter{{Rule: name, Counted: counted[0].Counted}}, fmt.Errorf("rule %q: %w", name, err)
		}
		for _, c := range counted {
			if all = append(all, c.Counter); !c.Unlimited {
				of, asks = append(of, len(all)-1), append(asks, engine.Ask{Policy: c.policy, Key: []byte(c.Counted), Op: op})
			}
		}
	}
	ctx, cancel := inTime(ctx, patience(ctx))
	defer cancel()
	grants := make([]lease.Grant, len(asks))
	s.config.Store.Acquire(ctx, asks, grants)
	for i := range grants {
		c, g := &all[of[i]], &grants[i]
		if g.Status != lease.OK {
			return nil, fmt.Errorf("rule %q: %w; try again", c.Rule, ErrUndecided)
		}
		c.Limit, c.Remaining, c.Out, c.OutMS = g.Limit, g.Remaining, g.Granted, int64(g.TTL)
		c.RetryAfterMS, c.ResetMS = int64(g.RetryAfter), int64(g.Reset)
		c.Blocked = g.Block > 0
	}
	return slices.DeleteFunc(all, func(c v1.Counter) bool { return c.Variant > 0 && c.Remaining >= c.Limit && c.Out <= 0 }), nil
}

// mayOperate is an error where others have the counters of a policy.
func (s *Service) mayOperate(op engine.Op, p *engine.Policy) error {
	switch {
	case p.Scope == rule.ScopePoP:
		return fmt.Errorf("%w: scope: pop counts in each PoP alone, so no region has the counter", ErrElsewhere)
	case p.Scope == rule.ScopeGlobal && op == engine.Reset && !s.config.Divides:
		return fmt.Errorf("%w: scope: global is counted by the aggregator, reset it there", ErrElsewhere)
	}
	return nil
}

// counted is a counter before it is asked for.
type counted struct {
	v1.Counter
	policy *engine.Policy
}

// counters are those that a rule in force has for a key: its own first.
func (c *catalog) counters(name string, key []byte, now limit.Micros) ([]counted, error) {
	e := c.rules[name]
	r, parts := e.set.Rule(e.index), rule.SplitKey(string(key))
	switch {
	case len(key) > wire.MaxKey:
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d", ErrKey, len(key), wire.MaxKey)
	case len(r.Key) == 0 && len(key) > 0:
		return nil, fmt.Errorf("%w: all requests share one counter, leave the key out", ErrKey)
	case len(r.Key) > 0 && len(key) == 0:
		return nil, fmt.Errorf("%w: it is missing, give the key", ErrKey)
	case len(r.Key) > 0 && !rule.IsHash(parts) && len(parts) != len(r.Key):
		return nil, fmt.Errorf("%w: it has %d parts, the key of the rule %d; write \\| for a | in a part", ErrKey, len(parts), len(r.Key))
	}
	if r.Hash {
		key = r.HashedKeyOf(parts, c.secret)
	} else if len(key) > 0 {
		key = r.KeyOf(parts)
	}
	all := make([]counted, 0, 1)
	for v, p := range e.policies {
		one := counted{v1.Counter{Rule: name, Variant: v, Override: r.Limits[v].Name, Counted: string(key)}, p}
		if own := e.keys.Find(key, now); v == 0 && own.Policy != nil {
			one.policy, one.OwnLimit, one.Until, one.Override = own.Policy, true, untilOf(own.Until), string(own.Name)
			one.Unlimited = own.Policy.Unlimited
		}
		if v > 0 && r.Limits[v].Unlimited {
			continue
		}
		one.Slots = p.Limit.Concurrent()
		all = append(all, one)
	}
	return all, nil
}

// untilOf is a time as people are told; 0: none.
func untilOf(at limit.Micros) *time.Time {
	if at == 0 {
		return nil
	}
	t := time.UnixMicro(int64(at)).UTC()
	return &t
}
