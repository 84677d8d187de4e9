package holder

import (
	"github.com/weirlimit/weir/internal/lease"
)

// Holding is what a holder keeps of one concurrency limit's key: how many slots
// it may have in use. Unlike units, slots come back by themselves: a holder states
// in every ask what it holds, in absolute numbers, and that lapses unless it is renewed.
// The zero value holds nothing. The caller counts how many are in use.
type Holding struct {
	May     int64        // slots it may have in use
	Until   lease.Millis // until then
	TTL     lease.Millis // how long that was granted for
	Asked   lease.Millis // when the last ask was sent; 0: never
	Asking  bool         // an ask is under way; lapses Terms.Timeout after Asked
	NextAsk lease.Millis // after a denial: no request waits before then
	Back    Backoff
}

// Missed decides a request for which too few slots are free. gaveBack is true if slots came
// back since the last denial.
func (h *Holding) Missed(now lease.Millis, gaveBack bool) Verdict {
	switch {
	case now < h.NextAsk && !gaveBack:
		return Refuse
	case h.Back.Off(now):
		return Unanswered
	}
	return Wait
}

// Due decides whether to ask while no request waits: to renew at half of the time, or to
// give back what is not needed so that others can have it.
func (h *Holding) Due(t *lease.Terms, now lease.Millis, inUse int64) bool {
	if h.Asking && now < h.Asked+t.Timeout || now < h.Asked+t.Interval || h.Back.Off(now) {
		return false
	}
	if h.May > 0 && now >= h.Until && inUse == 0 {
		return false // it lapsed with nothing in use: the granter has forgotten it as well
	}
	renew := (inUse > 0 || h.May > 0) && now >= h.Until-h.TTL/2
	return renew || h.May > inUse+reserve(t, inUse)
}

// Ask makes the want to send, unless one is under way. Until the reply the holder uses no
// more than it states: the granter may hand out the rest as soon as it has read the want.
func (h *Holding) Ask(t *lease.Terms, now lease.Millis, inUse, need, waiting int64) lease.Want {
	keep := inUse
	if now < h.Until {
		keep = max(inUse, min(h.May, inUse+reserve(t, inUse)))
	}
	h.Back.claim(t, now)
	h.May, h.Asked, h.Asking = keep, now, true
	want := max(keep, inUse+waiting)
	if waiting > 0 {
		want += reserve(t, want)
	}
	return lease.Want{Holding: keep, Need: need, Waiting: waiting, Want: want}
}

// Apply takes the reply to an ask sent at sent: granted slots in all. The reply
// to any but the newest ask is ignored: a later statement may have given back what it
// grants. jitter is that of [State.Apply].
func (h *Holding) Apply(t *lease.Terms, now, sent lease.Millis, g lease.Grant, jitter lease.Percent) {
	if sent != h.Asked {
		return
	}
	h.Asking = false
	if !h.Back.replied(t, now, g.Status, jitter) {
		return
	}
	h.May, h.Until, h.TTL = g.Granted, sent+g.TTL, g.TTL
	h.NextAsk = 0
	if g.Status == lease.Denied {
		h.NextAsk = now + max(g.AskAfter, 1)
	}
}

// reserve is how many slots beyond those in use a holder keeps, an eighth of these, so that
// not every request has to ask while streams come and go.
func reserve(t *lease.Terms, inUse int64) int64 {
	if t.Consistency == lease.Exact {
		return 0
	}
	return inUse / 8
}
