package sim

import (
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// pool is a concurrency limit's key at its granter: statements older than the
// newest of their holder are ignored.
type pool struct {
	limit *limit.Limit
	slots limit.Slots
	seen  map[uint64]uint64
}

// worker is a holder of slots, with streams that run for a while.
type worker struct {
	w       *World
	p       *pool
	id      uint64
	seq     uint64
	terms   lease.Terms
	holding lease.Holding
	inUse   int64
	waiting int64
	used    *int64
	most    *int64
	served  int64
	stale   bool // broken on purpose: takes the reply to an older ask for one to the newest
}

func (k *worker) now() lease.Millis { return lease.Millis(k.w.Now / limit.Millisecond) }

// arrive is a request that holds a slot for so long.
func (k *worker) arrive() {
	switch k.holding.Enter(k.now(), k.inUse, 1) {
	case lease.Admit:
		k.start()
	case lease.Wait:
		k.waiting++
		k.ask()
	}
}

func (k *worker) start() {
	k.inUse++
	k.served++
	*k.used++
	*k.most = max(*k.most, *k.used)
	k.w.after(limit.Micros(10+k.w.rand.IntN(400))*limit.Millisecond, func() { k.inUse--; *k.used-- })
}

// ask states what is held, over a network that loses, repeats and reorders.
func (k *worker) ask() {
	if k.holding.Asking && k.now() < k.holding.Asked+k.terms.Timeout || k.now() == k.holding.Asked {
		return
	}
	hw := k.holding.Ask(&k.terms, k.now(), k.inUse, min(k.waiting, 1), k.waiting)
	k.seq++
	seq, sent := k.seq, k.now()
	for range 1 + k.w.rand.IntN(2) {
		if k.w.chance(k.w.Net.LoseCall) {
			continue
		}
		k.w.after(k.w.delay(), func() {
			if seq < k.p.seen[k.id] {
				return
			}
			k.p.seen[k.id] = seq
			var d limit.HoldDecision
			k.p.slots, d = k.p.limit.Hold(k.p.slots, k.w.Now, k.id, hw.Holding, hw.Want)
			g := lease.Grant{Status: lease.OK, Granted: d.Granted, TTL: lease.Millis(d.TTL / limit.Millisecond)}
			if d.Granted < hw.Holding+hw.Need {
				g.Status, g.AskAfter = lease.Denied, 20
			}
			if !k.w.chance(k.w.Net.LoseReply) {
				k.w.after(k.w.delay(), func() { k.reply(sent, g) })
			}
		})
	}
}

func (k *worker) reply(sent lease.Millis, g lease.Grant) {
	if k.stale {
		sent = k.holding.Asked
	}
	k.holding.Apply(&k.terms, k.now(), sent, g, 100)
	for k.waiting > 0 && k.holding.Enter(k.now(), k.inUse, 1) == lease.Admit {
		k.waiting--
		k.start()
	}
	if k.holding.Enter(k.now(), k.inUse, 1) == lease.Refuse {
		k.waiting = 0
	}
}

func (k *worker) tick() {
	if k.waiting > 0 || k.holding.Due(&k.terms, k.now(), k.inUse) {
		k.ask()
	}
	k.w.after(50*limit.Millisecond, k.tick)
}

// churn runs workers that between them want twice the slots, and returns the most
// that were in use at once and how many requests were served.
func churn(t *testing.T, seed uint64, holders int, count int64, lossy, stale bool) (most, served int64) {
	t.Helper()
	l, err := limit.New(limit.Spec{Algorithm: limit.Concurrency, Count: count, LeaseTTL: 2 * limit.Second})
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Seed: seed, Net: Net{Delay: limit.Millisecond, Spread: 30 * limit.Millisecond}}
	if lossy {
		c.Net.LoseCall, c.Net.LoseReply = 0.05, 0.05
	}
	w := New(c)
	p := &pool{limit: l, seen: map[uint64]uint64{}}
	var used int64
	workers := make([]*worker, holders)
	for i := range workers {
		k := &worker{w: w, p: p, id: uint64(i + 1), terms: lease.NewTerms(l, lease.Leased, 0, 0, 0), used: &used, most: &most, stale: stale}
		workers[i] = k
		k.tick()
		var next func()
		next = func() {
			k.arrive()
			w.after(limit.Micros(w.rand.Int64N(2*int64(205*limit.Millisecond)*int64(holders)/(2*count))+1), next)
		}
		next()
	}
	if err := w.Run(20 * limit.Second); err != nil {
		t.Fatal(err)
	}
	for _, k := range workers {
		served += k.served
	}
	return most, served
}

// TestConcurrency never sees more slots in use than there are, whatever the
// network does, and hardly fewer served than could be.
func TestConcurrency(t *testing.T) {
	for _, c := range []struct {
		holders int
		count   int64
	}{{1, 20}, {2, 20}, {5, 100}, {20, 100}} {
		for seed := range uint64(5) {
			for _, lossy := range []bool{false, true} {
				most, served := churn(t, seed, c.holders, c.count, lossy, false)
				if most > c.count {
					t.Errorf("%+v, seed %d, lossy %v: %d in use", c, seed, lossy, most)
				}
				// Each slot serves a request in 205 ms, for 20 s.
				if could := 20_000 * c.count / 205; served < could/2 || !lossy && served < could*7/10 {
					t.Errorf("%+v, seed %d, lossy %v: %d served of %d", c, seed, lossy, served, could)
				}
			}
		}
	}
}

// TestStaleRepliesAreCaught proves that the bound above can fail.
func TestStaleRepliesAreCaught(t *testing.T) {
	for seed := range uint64(20) {
		if most, _ := churn(t, seed, 5, 100, true, true); most > 100 {
			return
		}
	}
	t.Error("nobody noticed that replies to older asks were applied")
}
