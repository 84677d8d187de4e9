package leasecache

import (
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
)

// A request may bring a limit of its own ([engine.Policy.Brought]). For the next minute the cache has
// no leases of its key, and sends each ask for it to the store alone, by the ask's own limit. An ask
// that did not fit by the last reply is rejected from memory until the next lease interval.

// passFor is how long asks for a key go to the store after a request that brought a limit.
const passFor = lease.Millis(limit.Minute / limit.Millisecond)

// passing is what the cache keeps of a key whose asks go to the store; nil: they do not.
type passing struct {
	until lease.Millis
	used  int64        // units of the counter by the last reply
	reset lease.Millis // when the counter is as good as new, by the last reply
	askAt lease.Millis // asks that do not fit are not sent before then
}

// passes reports whether asks for the key go to the store. A policy that came with a request begins
// the minute anew.
func (k key) passes(now lease.Millis, p *engine.Policy) bool {
	v := &k.Value
	if p.Brought {
		if v.passing == nil {
			v.passing = new(passing)
		}
		v.passing.until = now + passFor
	}
	return v.passing.lasts(now)
}

func (p *passing) lasts(now lease.Millis) bool { return p != nil && now < p.until }

// left is how many units of a limit were left by the last reply.
func (p *passing) left(now lease.Millis, t *lease.Terms) int64 {
	if now >= p.reset {
		return t.Capacity
	}
	return max(0, t.Capacity-p.used)
}

// noFit reports whether an ask did not fit by the last reply. A peek does not fit if nothing is left.
func (p *passing) noFit(now lease.Millis, a *engine.Ask) bool {
	return p != nil && now < p.reset && p.used+max(a.Want.Need, 1) > a.Policy.Terms.Capacity
}

// answerRejected answers an ask that does not fit from memory. If rejections are charged, the store gets all.
func (q *acquisition) answerRejected(k key, a *engine.Ask, i int) bool {
	p, t := k.Value.passing, &a.Policy.Terms
	if q.now >= p.askAt || !p.noFit(q.now, a) || t.ChargesRejected || a.Want.Unused > 0 {
		return false
	}
	q.grants[i] = lease.Grant{
		Status: lease.Denied, RetryAfter: p.reset - q.now, AskAfter: p.askAt - q.now,
		Limit: t.Capacity, Remaining: p.left(q.now, t), Reset: p.reset - q.now,
	}
	if a.Peeks() {
		q.grants[i].Status = lease.OK
	}
	q.answered(holder.Reject)
	return true
}

// passOn sends an ask to the store, and [key.takeAllBack] before it. The debts of the key follow with the next report.
func (q *acquisition) passOn(k key, a *engine.Ask, i int) {
	p := k.Value.passing
	switch {
	case q.answerRejected(k, a, i):
		return
	case q.now < k.Value.pause:
		q.unavailable(i)
		return
	case p.noFit(q.now, a):
		p.askAt = q.now + a.Policy.Terms.Interval
	}
	before := k.takeAllBack(q.now)
	if k.reports(q.now) {
		k.report(q.now)
	}
	alone := *a
	alone.Group = 0
	q.pass(&alone, i)
	q.batch.pending[len(q.batch.pending)-1].before = before
}

// replyPassing notes a reply to an ask that was passed on. What the relay knew of the counter is not
// true any more.
func (k key) replyPassing(now lease.Millis, a *engine.Ask, g lease.Grant) {
	v := &k.Value
	if v.passing == nil {
		return
	}
	if v.noteReply(now, g.Status, k.store.config.Jitter); !decided(g) {
		return
	}
	v.passing.used, v.passing.reset = a.Policy.Terms.Capacity-g.Remaining, now+g.Reset
	if g.Status == lease.Denied {
		v.passing.askAt = now + a.Policy.Terms.Interval
	}
	v.relay.Forget()
	v.replied = 0
}
