package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge/live"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/shedding"
)

// decider decides requests: which rules apply, which of them wait for the region, and
// what is put back when one of them rejects.
type decider struct {
	taker
	rules *rulebook.Rulebook
	live  *live.Reporter
	sheds *shedding.Rules

	matches rule.Matches
	waiting []*Request
}

// match finds the rules in force that apply to a request; false if none does.
func (d *decider) match(in *rule.Request) bool {
	in.Secret = d.rules.Secret()
	d.rules.InForce.Set.Match(in, &d.matches)
	for _, i := range d.matches.Exempt {
		d.rules.CountsOf(d.rules.InForce.Set.Rule(i).Name).Decided[rulebook.Exempted]++
	}
	for _, i := range d.matches.MissingKey {
		d.rules.CountsOf(d.rules.InForce.Set.Rule(i).Name).MissingKey++
	}
	return len(d.matches.Hits)+len(d.matches.Sheds) > 0
}

// decide takes a request through the rules that apply to it, the shed rules first: what they reject costs nothing on others.
func (d *decider) decide(now lease.Millis, r *Request) {
	if !d.shed(now, r, false) {
		return
	}
	d.shed(now, r, true)
	shadows := d.addHits(r)
	d.enforce(now, r)
	if shadows && r.Outcome != Deny {
		d.decideShadows(now, r)
	}
}

// shed asks the shed rules that apply to a request, those with mode: shadow or the others. From here on it counts as in flight by each,
// also while it waits, so that not too many go on at once. False if one of them rejects it.
func (d *decider) shed(now lease.Millis, r *Request, shadow bool) bool {
	for i := range d.matches.Sheds {
		hit := &d.matches.Sheds[i]
		s := d.sheds.Of(hit.Rule)
		if s.Shadow != shadow {
			continue
		}
		held, rejected := s.Enter(now, hit)
		switch {
		case rejected && shadow:
			r.WouldDeny = append(r.WouldDeny, s.Name)
		case rejected:
			r.Outcome, r.Status, r.Shed, r.Class = Deny, 503, d.rules.InForce.Set.Rule(hit.Rule), hit.Class
			r.RetryAfter = 1000 + 1000*lease.Millis(d.pop.UpTo(2))
			r.leaveSheds()
			return false
		}
		r.sheds = append(r.sheds, held)
	}
	return true
}

// addHits makes the hits of the enforced rules; it reports whether there are
// shadow rules too.
func (d *decider) addHits(r *Request) (shadows bool) {
	for i := range d.matches.Hits {
		m := &d.matches.Hits[i]
		p := &d.rules.InForce.ByRule[m.Rule][m.Variant]
		if p.Shadow {
			shadows = true
			continue
		}
		r.hits = append(r.hits, hit{
			policy:   p,
			key:      p.Key(d.pop.Seed, m.Key),
			cost:     m.Cost,
			noSecret: m.NoSecret,
			verdict:  holder.Wait,
			quota:    Quota{Rule: p.Rule, Name: p.Name, Policy: p.Item, Limit: p.Terms.Capacity, Consistency: p.Terms.Consistency},
		})
	}
	return shadows
}

// enforce decides the hits of r: each is rejected from memory, or takes what is
// there, or waits. When one of them is rejected, what the others took is put back.
// Exact rules come first: nothing is taken of them without asking, so a rejection
// from memory takes nothing from the others.
func (d *decider) enforce(now lease.Millis, r *Request) {
	for i := range r.hits {
		if r.hits[i].rejectedBefore(now) {
			d.deny(now, r, i)
			return
		}
	}
	if !d.takeAll(now, r, true) || !d.takeAll(now, r, false) {
		return
	}
	if r.undecided == 0 {
		d.admit(now, r)
		return
	}
	d.wait(now, r)
}

// rejectedBefore rejects a hit from the cache of denials.
func (h *hit) rejectedBefore(now lease.Millis) bool {
	denied := h.policy.Denials.Rejects(h.key.Hash, now, h.cost)
	if denied == nil {
		return false
	}
	h.own, h.blocked = denied.OwnLimit, denied.Blocked
	h.quota.Remaining = 0
	h.retry(now, denied.RetryAt)
	return true
}

// retry notes when a client that is rejected should come back.
func (h *hit) retry(now, at lease.Millis) { h.quota.Reset = max(at-now, 1) }

// takeAll takes the hits of exact rules, or those of the others. False if one of
// them denied the request.
func (d *decider) takeAll(now lease.Millis, r *Request, exact bool) bool {
	for i := range r.hits {
		h := &r.hits[i]
		if h.policy.Exact != exact {
			continue
		}
		switch h.verdict = d.take(now, h); h.verdict {
		case holder.Reject:
			d.deny(now, r, i)
			return false
		case holder.Wait:
			r.undecided++
		}
	}
	return true
}

// admit lets a request pass that no rule rejects.
func (d *decider) admit(now lease.Millis, r *Request) {
	r.Outcome = Admit
	for i := range r.sheds {
		r.sheds[i].Count()
	}
	for i := range r.hits {
		h := &r.hits[i]
		h.ownLimit()
		h.policy.Counts.Decided[h.decision]++
		r.Degraded = r.Degraded || h.decision >= rulebook.FailedOpen
		if h.policy.Settles && !h.uncounted {
			h.settles = settlesCount
			r.open++
		}
	}
	if r.open > 0 && len(r.keys) == 0 {
		r.keepKeys()
	}
	if d.live.View != nil {
		for i := range r.hits {
			d.show(now, &r.hits[i])
		}
	}
}

// show shows a decision to somebody who watches. A key without a secret is not known.
func (d *decider) show(now lease.Millis, h *hit) {
	if v := d.live.View; v != nil && !h.noSecret {
		v.Show(now, live.Decided{
			Policy: h.policy, Key: h.key, Decision: h.decision, Own: h.own, Remaining: h.quota.Remaining, Retry: h.quota.Reset,
		})
	}
}

// deny rejects a request because of its hit i, and puts back what the others took.
func (d *decider) deny(now lease.Millis, r *Request, i int) {
	h := &r.hits[i]
	h.verdict = holder.Reject
	if h.decision == rulebook.Allowed {
		h.decision = rulebook.Denied
	}
	if h.blocked && h.decision == rulebook.Denied {
		h.decision, r.Blocked = rulebook.Blocked, true
	}
	h.policy.Counts.Decided[h.decision]++
	r.Outcome, r.Status, r.denier, r.RetryAfter = Deny, h.policy.Rule.Rejection.Status, i, h.quota.Reset
	if h.status != 0 {
		r.Status, r.Failed = h.status, true
	}
	for j := range r.hits {
		if j != i {
			r.RetryAfter = max(r.RetryAfter, d.known(now, &r.hits[j]))
		}
	}
	r.Degraded = h.decision >= rulebook.FailedOpen
	if r.RetryAfter > lease.CeilMillis(limit.MaxPeriod) || h.policy.Concurrency && !r.Degraded { // waiting does not help, or nobody knows
		r.RetryAfter, h.quota.Reset = 0, 0
	}
	r.RetryAfter += lease.Millis(d.pop.UpTo(uint64(r.RetryAfter * lease.Millis(h.policy.Rule.RetryJitter) / 100)))
	for i := range r.hits {
		r.hits[i].ownLimit()
	}
	d.show(now, h)
	r.leaveSheds()
	d.refundAll(now, r)
}

// known is the wait of a hit that is over its limit by what the PoP knows; 0: it is not, or has been taken.
func (d *decider) known(now lease.Millis, h *hit) lease.Millis {
	if h.verdict == holder.Admit || h.noSecret || h.policy.Concurrency {
		return 0
	}
	e := d.accounts.open(h.policy, h.key)
	if h.policy.Local {
		time := d.pop.TimeOfDay(now)
		return lease.CeilMillis(max(h.policy.Limit.Peek(e.Counter, time, h.cost).RetryAfter, e.Lockout.Ends-time))
	}
	return e.Known(&h.policy.Terms, now, h.cost)
}

// refundAll puts back what a request took.
func (d *decider) refundAll(now lease.Millis, r *Request) {
	for j := range r.hits {
		if o := &r.hits[j]; o.verdict == holder.Admit {
			o.verdict = holder.Reject
			d.refund(now, o)
		}
	}
}

func (d *decider) refund(now lease.Millis, h *hit) {
	switch {
	case h.slots != nil:
		d.slots.leave(now, h)
	case h.uncounted:
	case h.policy.Local:
		d.accounts.refundLocal(now, h)
	default:
		d.accounts.refund(now, h)
	}
}

// decideShadows evaluates the shadow rules of a request that passes, for the
// counters and the access log only.
func (d *decider) decideShadows(now lease.Millis, r *Request) {
	for i := range d.matches.Hits {
		m := &d.matches.Hits[i]
		p := &d.rules.InForce.ByRule[m.Rule][m.Variant]
		if !p.Shadow {
			continue
		}
		h := hit{policy: p, key: p.Key(d.pop.Seed, m.Key), cost: m.Cost, noSecret: m.NoSecret}
		verdict := d.takeUndenied(now, &h)
		var reserved *hit
		if p.Settles && verdict != holder.Reject {
			reserved = r.reserveShadow(&h)
		}
		if verdict == holder.Wait && d.uplink.Lane(p).Open {
			verdict = holder.Admit
		} else if verdict == holder.Wait {
			verdict = d.ask(now, &h, waiter{cost: h.cost, reserved: reserved})
		}
		if reserved != nil && verdict != holder.Wait {
			d.decideReserved(now, reserved, &h, verdict)
		}
		if verdict != holder.Wait {
			d.countShadow(now, &h, verdict)
		}
		if verdict == holder.Reject {
			_, name := p.Own(h.own)
			r.WouldDeny = append(r.WouldDeny, name)
		}
		if h.slots != nil {
			r.shadows = append(r.shadows, &hit{policy: p, cost: h.cost, slots: h.slots})
		}
	}
}

// countShadow counts what a shadow rule would have done.
func (d *decider) countShadow(now lease.Millis, h *hit, v holder.Verdict) {
	h.decision = rulebook.ShadowAllowed
	if v == holder.Reject {
		h.decision = rulebook.ShadowDenied
		if !h.noSecret {
			h.policy.Counts.RejectOnTrial(h.key.Text)
		}
	}
	h.policy.Counts.Decided[h.decision]++
	d.show(now, h)
}
