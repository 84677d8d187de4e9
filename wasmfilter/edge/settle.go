package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/rule/settle"
)

// A request to which a rule with count applies takes its cost as any other request. What it takes is a reservation until its
// response settles it, once. If the response does not count, the units go back: to the lease that they came from, otherwise
// to the region. If that is not possible, or the message is lost, they stay used until their window ends. So the responses
// that count never need more than the limit.

// Settle settles the reservations of an admitted request by its response. It leaves those open that trailers may decide;
// [Worker.End] settles what is open then as not counted.
func (w *Worker) Settle(now lease.Millis, r *Request, by settle.Response) {
	w.decider.settleBy(now, r, by)
}

func (d *decider) settleBy(now lease.Millis, r *Request, by settle.Response) {
	for i := 0; r.open > 0 && i < len(r.hits); i++ {
		d.settleHit(now, r, &r.hits[i], by)
	}
	for i := 0; r.open > 0 && i < len(r.shadows); i++ {
		d.settleHit(now, r, r.shadows[i], by)
	}
}

func (d *decider) settleHit(now lease.Millis, r *Request, h *hit, by settle.Response) {
	if !h.reservation {
		return
	}
	counts, settled := h.policy.Rule.Count.Settle(by)
	if !settled {
		return
	}
	h.reservation = false
	r.open--
	switch {
	case counts && h.verdict == holder.Admit:
		d.accounts.count(now, h)
	case counts: // see decideReserved
	case h.verdict == holder.Wait:
		h.returns = true
	default:
		d.giveBack(now, h)
	}
}

// giveBack puts back what a hit took whose response does not count. The rules may have changed since: a rule that is gone,
// or that counts anew, takes nothing back.
func (d *decider) giveBack(now lease.Millis, h *hit) {
	p := d.rules.InForce.ByID[uint32(h.policy.ID)]
	if p == nil || p.Local != h.policy.Local || h.uncounted || h.verdict != holder.Admit {
		return
	}
	h.policy, h.verdict = p, holder.Reject
	if p.Local {
		p.Denials.Forget(h.key.Hash)
		d.accounts.refundLocal(now, h)
	} else {
		d.accounts.settle(now, h)
	}
	h.quota.Remaining = min(h.quota.Remaining+h.cost, h.quota.Limit)
}

// reserveShadow makes a reservation of a hit of a shadow rule. The answer of the region may come after the response.
func (r *Request) reserveShadow(h *hit) *hit {
	own := *h
	own.key.Text = append([]byte(nil), h.key.Text...)
	own.verdict, own.reservation = holder.Wait, true
	r.shadows = append(r.shadows, &own)
	r.open++
	return &own
}

// decideReserved notes the verdict on a hit of a shadow rule, and what h has taken.
func (d *decider) decideReserved(now lease.Millis, reserved, h *hit, verdict holder.Verdict) {
	reserved.verdict, reserved.taken, reserved.period, reserved.uncounted = verdict, h.taken, h.period, h.uncounted
	switch {
	case reserved.returns:
		d.giveBack(now, reserved)
	case !reserved.reservation && verdict == holder.Admit:
		d.accounts.count(now, reserved)
	}
}
