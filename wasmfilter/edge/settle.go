package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule/settle"
)

// A request to which a rule with count or cost.actual applies takes its cost as any other request. What it takes is a
// reservation until its response settles it, once. If the response does not count, or has cost less, the units go back: to the
// lease that they came from, otherwise to the region. If that is not possible, or the message is lost, they stay used until
// their window ends. So the responses that count, and what they cost, never need more than the limit. If a response has cost
// more, the rest is a debt of the key.

// Settle settles the reservations of an admitted request by its response. It leaves those open that trailers, or the end of
// the stream, may decide; [Worker.End] settles what is open then.
func (w *Worker) Settle(now lease.Millis, r *Request, by settle.Response) {
	w.decider.settleBy(now, r, &by)
}

func (d *decider) settleBy(now lease.Millis, r *Request, by *settle.Response) {
	for i := 0; r.open > 0 && i < len(r.hits); i++ {
		d.settleHit(now, r, &r.hits[i], by)
	}
	for i := 0; r.open > 0 && i < len(r.shadows); i++ {
		d.settleHit(now, r, r.shadows[i], by)
	}
}

func (d *decider) settleHit(now lease.Millis, r *Request, h *hit, by *settle.Response) {
	if h.settles == settlesNothing {
		return
	}
	rule, used, missing := h.policy.Rule, int64(0), false
	counts, settled := h.settles == settlesCost, true
	if !counts {
		counts, settled = rule.Count.Settle(by)
	}
	if counts {
		h.settles = settlesCost
		used, settled, missing = rule.Cost.Actual.Settle(by, h.cost)
	}
	if !settled {
		return
	}
	if missing {
		d.rules.CountsOf(rule.Name).MissingCost++
	}
	if most := rule.Cost.Actual.MaxStream; most > 0 && now-r.arrived > lease.Millis(most/limit.Millisecond) {
		used = max(used, h.cost)
	}
	h.settles, h.used = settlesNothing, used
	r.open--
	if h.verdict != holder.Wait { // otherwise the answer of the region to a shadow rule is still to come
		d.settleUnits(now, h)
	}
}

// settleUnits puts back what a hit took and has not used, or charges what it has used beyond that. The rules may have changed
// since: a rule that is gone, or that counts anew, takes nothing back.
func (d *decider) settleUnits(now lease.Millis, h *hit) {
	p := d.rules.InForce.ByID[uint32(h.policy.ID)]
	if p == nil || p.Local != h.policy.Local || h.uncounted || h.verdict != holder.Admit || h.used == h.cost && !p.Limit.Spec().Reserves {
		return
	}
	h.policy, h.verdict = p, holder.Reject
	if p.Local {
		p.Denials.Forget(h.key.Hash)
		d.accounts.settleLocal(now, h)
	} else {
		d.accounts.settle(now, h)
	}
	h.quota.Remaining = max(0, min(h.quota.Remaining+h.cost-h.used, h.quota.Limit))
}

// reserveShadow makes a reservation of a hit of a shadow rule. The answer of the region may come after the response.
func (r *Request) reserveShadow(h *hit) *hit {
	own := *h
	own.key.Text = append([]byte(nil), h.key.Text...)
	own.verdict, own.settles = holder.Wait, settlesCount
	r.shadows = append(r.shadows, &own)
	r.open++
	return &own
}

// decideReserved notes the verdict on a hit of a shadow rule, and what h has taken.
func (d *decider) decideReserved(now lease.Millis, reserved, h *hit, verdict holder.Verdict) {
	reserved.verdict, reserved.taken, reserved.period, reserved.uncounted = verdict, h.taken, h.period, h.uncounted
	if reserved.settles == settlesNothing {
		d.settleUnits(now, reserved)
	}
}
