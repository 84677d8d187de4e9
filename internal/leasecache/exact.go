package leasecache

import (
	"context"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
)

// A request may bring a limit of its own ([engine.Policy.Brought]). Its key is exact for the next
// minute: each ask goes to the store alone, by its own limit, and nothing is on lease. What was on
// lease goes back before the first of these asks.

// exactFor is how long a key is exact after a request that brought a limit.
const exactFor = lease.Millis(limit.Minute / limit.Millisecond)

// exact is what the cache keeps of a key that is exact.
type exact struct {
	until   lease.Millis
	out     int32        // see asks
	waiting []exactAsk   // until nothing else is out and nothing is on lease
	used    int64        // units of the counter by the last reply, or at least so many
	known   bool         // used is not more
	learned lease.Millis // when the last reply came
	reset   lease.Millis // when the counter is as good as new, by the last reply
	askAt   lease.Millis // before then requests that do not fit are refused from memory
}

// exactAsk is an ask that waits for its turn.
type exactAsk struct {
	ask    engine.Ask
	waiter waiter
}

// isExact reports whether the key is exact. A policy that came with a request makes it so.
func (k key) isExact(now lease.Millis, p *engine.Policy) bool {
	v := &k.Value
	if p.Brought {
		if v.exact == nil {
			v.exact = new(exact)
		}
		v.exact.until = now + exactFor
	}
	return v.exact.lasts(now)
}

func (x *exact) lasts(now lease.Millis) bool { return x != nil && now < x.until }

// asks is how many of its asks are out, without those that only give back.
func (x *exact) asks() int32 {
	if x == nil {
		return 0
	}
	return x.out
}

// full reports whether an ask did not fit by the last reply. A peek does not fit if nothing
// is left.
func (x *exact) full(now lease.Millis, a *engine.Ask) bool {
	return x != nil && now < x.reset && x.used+max(a.Want.Need, 1) > a.Policy.Terms.Capacity
}

// refuses reports whether an ask is refused from memory. While a key is full the store gets one ask
// in each lease interval. Where denials are charged it gets all.
func (x *exact) refuses(now lease.Millis, a *engine.Ask) bool {
	return now < x.askAt && x.full(now, a) && !a.Policy.Terms.ChargesDenied
}

// refusal is the answer from memory.
func (x *exact) refusal(now lease.Millis, a *engine.Ask) lease.Grant {
	g := lease.Grant{
		Status: lease.Denied, RetryAfter: x.reset - now, AskAfter: x.askAt - now,
		Limit: a.Policy.Terms.Capacity, Remaining: max(0, a.Policy.Terms.Capacity-x.used), Reset: x.reset - now,
	}
	if a.Peeks() {
		g.Status = lease.OK
	}
	return g
}

// remembered is the answer to an ask that another one of its group refuses.
func (x *exact) remembered(now lease.Millis, a *engine.Ask) lease.Grant {
	g := nothing(a)
	if x.known && now < x.reset {
		g.Remaining, g.Reset = max(0, g.Limit-x.used), x.reset-now
	}
	return g
}

// exactly asks the store for an ask of an exact key, or refuses it from memory. Nobody waits for
// what only gives back, but for the asks that come later.
func (q *acquisition) exactly(k key, a *engine.Ask, i int) {
	v := &k.Value
	x := v.exact
	alone := *a
	alone.Key, alone.Group = k.Key(), 0
	switch {
	case a.Want.Want == 0 && !a.Peeks():
		v.out++
		q.asking().put(alone, pending{key: k, sent: q.now, exact: true})
		q.grants[i] = nothing(a)
		return
	case x.refuses(q.now, a):
		q.grants[i] = x.refusal(q.now, a)
		q.answered(holder.Refuse)
		return
	case q.now < v.pause:
		q.unavailable(i)
		return
	case x.full(q.now, a):
		x.askAt = q.now + a.Policy.Terms.Interval
	}
	x.waiting = append(x.waiting, exactAsk{alone, waiter{answers: q.await(i), at: i}})
	q.asking().askExactly(q.now, k)
}

// askExactly asks for all that wait for an exact key. What is on lease or to be reported goes first,
// and the reply to it brings this up again.
func (b *batch) askExactly(now lease.Millis, k key) {
	v := &k.Value
	x := v.exact
	if v.out == x.out {
		b.giveUp(now, k)
	}
	if v.out > x.out {
		return
	}
	for _, w := range x.waiting {
		v.out++
		x.out++
		b.put(w.ask, pending{key: k, sent: now, queue: []waiter{w.waiter}, exact: true})
	}
	x.waiting = nil
}

// learn notes what the reply to an ask that was sent at sent has left of the counter. After a lease
// that is what others may use. A reply that has more left than the last one may be older than that, if
// its ask was out at the same time.
func (x *exact) learn(now, sent lease.Millis, a *engine.Ask, g lease.Grant, leased bool) {
	switch {
	case x == nil || !decided(g):
		return
	case leased:
		x.known = false
		return
	}
	used := a.Policy.Terms.Capacity - g.Remaining
	x.known = (g.Remaining > 0 || g.Granted > 0) && (sent > x.learned || used >= x.used)
	x.used, x.reset, x.learned = used, now+g.Reset, now
	if g.Status == lease.Denied {
		x.askAt = now + a.Policy.Terms.Interval
	}
}

// resumeExact asks for those that waited for a reply.
func (k key) resumeExact(now lease.Millis) {
	v, x := &k.Value, k.Value.exact
	switch {
	case x == nil || len(x.waiting) == 0 || v.out > x.out:
	case now < v.pause:
		for _, w := range x.waiting {
			w.waiter.answers.answer(w.waiter.at, lease.Grant{Status: lease.Unavailable})
		}
		x.waiting = nil
	default:
		b := k.store.newBatch()
		b.askExactly(now, k)
		k.store.out.Go(func() { b.run(context.Background()) })
	}
}

// replyExact applies the reply to an ask of an exact key. What the key's account knew of the
// counter holds no longer.
func (p *pending) replyExact(now lease.Millis, a *engine.Ask, g lease.Grant) {
	v := &p.Value
	if len(p.queue) > 0 {
		v.exact.out--
	}
	if decided(g) {
		v.relay.Unlearn()
		v.replied = 0
	}
	p.answerPassed(a, g)
}
