package holder

import (
	"github.com/weirlimit/weir/internal/lease"
)

// Holding is a holder's state of one key of a concurrency limit: how many slots may be in use. Slots come back by themselves. A
// holder states in every ask how many it holds, and the statement lapses unless it is renewed. The zero value holds none. The
// caller counts the slots in use.
type Holding struct {
	May     int64        // slots it may have in use
	Until   lease.Millis // until then
	TTL     lease.Millis // how long that was granted for
	Asked   lease.Millis // when the last ask was sent; 0: never
	Asking  bool         // an ask is under way; lapses Terms.Timeout after Asked
	NextAsk lease.Millis // after a denial: no request waits before then
	Back    Backoff
}

// Missed decides a request for which too few slots are free. gaveBack is true if slots came back since the last denial.
func (h *Holding) Missed(now lease.Millis, gaveBack bool) Verdict {
	switch {
	case now < h.NextAsk && !gaveBack:
		return Reject
	case h.Back.Off(now):
		return Unanswered
	}
	return Wait
}

// Due decides whether to ask although no request waits: to renew at half of the ttl, or to give back slots that are not needed.
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

// Ask makes the want to send. Until the reply the holder uses at most the slots that the want states, because the granter may
// grant the rest to other holders as soon as it has read the want.
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

// Apply takes the reply to the ask that was sent at sent. The reply grants slots in all. A reply to an older ask is ignored,
// because a later ask may have given the slots back. For jitter see [State.Apply].
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

// reserve is how many free slots a holder keeps, an eighth of those in use, so that not every new stream has to ask.
func reserve(t *lease.Terms, inUse int64) int64 {
	if t.Consistency == lease.Exact {
		return 0
	}
	return inUse / 8
}
