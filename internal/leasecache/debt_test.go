package leasecache_test

import (
	"context"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/limit"
)

// pop is a holder of one key, as a point of presence is one.
type pop struct {
	t     *testing.T
	above engine.Store
	p     *engine.Policy
	id    [16]byte
	slot  holder.State
	begin time.Time

	asks, admitted, degraded int64
}

func newPop(t *testing.T, above engine.Store, p *engine.Policy, id byte) *pop {
	return &pop{t: t, above: above, p: p, id: [16]byte{id}, begin: time.Now().Add(-time.Hour)}
}

func (h *pop) now() lease.Millis { return lease.Millis(time.Since(h.begin).Milliseconds()) }

// request is a client's. What is not answered is admitted, as by on_failure: allow. It
// asks all the same after failures.
func (h *pop) request() {
	d := h.slot.Take(&h.p.Terms, h.now(), 1)
	if d.Verdict == holder.Unanswered {
		d.Verdict = holder.Wait
	}
	if d.Verdict == holder.Wait || d.Ask != holder.NoAsk {
		need := int64(0)
		if d.Verdict == holder.Wait {
			need = 1
		}
		switch g := h.ask(need, d.Ask); {
		case d.Verdict != holder.Wait:
		case g.Status == lease.Unavailable:
			if h.slot.Fail(&h.p.Terms, h.now(), lease.Failure{By: lease.FailureAllow}, 1).Admitted {
				h.degraded++
			}
			return
		case g.Granted > 0:
			d.Verdict = holder.Admit
		}
	}
	if d.Verdict == holder.Admit {
		h.admitted++
	}
}

// ask asks above, and for what is still owed again until nothing is.
func (h *pop) ask(need int64, behind holder.Asks) lease.Grant {
	sent := h.now()
	w := h.slot.Ask(&h.p.Terms, sent, need, need, behind)
	g := h.send(w)
	h.slot.Apply(&h.p.Terms, h.now(), sent, w, g, max(0, g.Granted-need), 100)
	return g
}

func (h *pop) send(w lease.Want) lease.Grant {
	h.asks++
	w.Debt = engine.DebtID(h.id[:], w.Debt)
	grants := make([]lease.Grant, 1)
	ctx, cancel := context.WithTimeout(h.t.Context(), 100*time.Millisecond)
	defer cancel()
	h.above.Acquire(ctx, []engine.Ask{{Policy: h.p, Key: []byte("k"), Want: w}}, grants)
	return grants[0]
}

// report reports what is owed until that is acknowledged.
func (h *pop) report() {
	for range 100 {
		now := h.now()
		if w, some := h.slot.Report(&h.p.Terms, now); some {
			h.slot.Apply(&h.p.Terms, h.now(), now, w, h.send(w), 0, 100)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// A short outage does not lock a key out: what holders admitted meanwhile is charged
// once, however often they reported it.
func TestOutageChargesWhatWasAdmitted(t *testing.T) {
	onCache(t, func(t *testing.T, f *leasecache.Store, behind *far) {
		p := policyOf(t, limit.Spec{Algorithm: limit.SlidingWindow, Count: 10_000, Period: limit.Hour}, lease.Exact)
		holders := []*pop{newPop(t, f, p, 1), newPop(t, f, p, 2)}
		var degraded, admitted int64
		behind.down.Store(true)
		for end := time.Now().Add(3300 * time.Millisecond); time.Now().Before(end); time.Sleep(45 * time.Millisecond) {
			for _, h := range holders {
				h.request()
			}
		}
		behind.down.Store(false)
		for _, h := range holders {
			h.report()
			degraded, admitted = degraded+h.degraded, admitted+h.admitted
		}
		if degraded < 140 || admitted > 0 {
			t.Fatalf("the outage had %d degraded requests and %d others, want some 145 and none", degraded, admitted)
		}
		if got := charged(t, behind.Store, p, "k"); got != degraded {
			t.Errorf("%d were admitted in the outage, and %d charged after it", degraded, got)
		}
	})
}

// A debt that the store cannot take is still owed, and holds up nothing else: who has a
// lease here is answered from it.
func TestDebtStillOwed(t *testing.T) {
	onCache(t, func(t *testing.T, f *leasecache.Store, behind *far) {
		p := policyOf(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 1000, Period: limit.Hour}, lease.Leased)
		ask := func(w lease.Want) lease.Grant {
			grants := make([]lease.Grant, 1)
			f.Acquire(t.Context(), []engine.Ask{{Policy: p, Key: []byte("k"), Want: w}}, grants)
			return grants[0]
		}
		for range 100 { // a lease of some size
			ask(lease.Want{Need: 1, Waiting: 1, Want: 1})
			time.Sleep(10 * time.Millisecond)
		}
		used := charged(t, behind.Store, p, "k")
		behind.down.Store(true)
		owing := lease.Want{Need: 1, Waiting: 1, Want: 1, Overdrawn: 70, Debt: 5}
		for range 10 {
			if g := ask(owing); g.Status != lease.OK || g.Granted != 1 || !g.StillOwed {
				t.Fatalf("while the store fails: %+v, want a unit and the debt still owed", g)
			}
			time.Sleep(20 * time.Millisecond)
		}
		if g := ask(lease.Want{Overdrawn: 70, Debt: 5}); g.Status != lease.Unavailable {
			t.Errorf("the debt alone: %+v, want unavailable", g)
		}
		behind.down.Store(false)
		time.Sleep(time.Second)
		for range 3 {
			if g := ask(owing); g.Granted != 1 || g.StillOwed {
				t.Errorf("afterwards: %+v, want a unit and nothing owed", g)
			}
		}
		time.Sleep(time.Second)
		if got := charged(t, behind.Store, p, "k") - used; got < 70 || got > 70+200 {
			t.Errorf("%d charged since, want the debt of 70 once and a lease or two", got)
		}
	})
}
