package world

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/service"
)

// Tier grants leases to those below it: PoPs, by its service, or tiers, by its store. It
// has the counters, or a lease cache over a link to the granter.
type Tier struct {
	Name   string
	Region string  // that it belongs to; empty: there is only one
	Home   *Region // the region, if it has counters of its own
	Link   *Link   // to the granter; Link.Granter is nil: it has the counters
	*Life

	w      *World
	offset limit.Micros // its monotonic clock, from virtual time
	paused limit.Micros // until then it answers nobody
}

// Life is what a tier loses when it restarts.
type Life struct {
	Tier    *Tier
	Service *service.Service
	Over    bool
	Notes   any // the observer's

	store   engine.Store
	handler http.Handler
	stop    context.CancelFunc
	share   func() uint32 // the region's, in thousandths; nil: it is not known
}

// newTier makes a tier over another; nil: it has the counters.
func newTier(w *World, name string, granter *Tier, region string) *Tier {
	t := &Tier{w: w, Name: name, Region: region}
	if !w.config.Steady {
		t.offset = limit.Micros(w.Rand.Int64N(int64(limit.Second)))
	}
	t.Link = newLink(w, &w.Net, name, granter)
	if region != "" {
		t.Link.net = &w.AggregatorNet
	}
	for _, h := range w.Regions {
		if h.Name == region {
			t.Home, t.Link.net = h, &h.Net
		}
	}
	t.start()
	w.Tiers = append(w.Tiers, t)
	return t
}

// newReplica makes a process with as many lease caches, one above the other, as the run has.
func newReplica(w *World, name, region string) *Tier {
	t := w.Tiers[0]
	for n := w.config.Depth; n > 1; n-- {
		t = newTier(w, fmt.Sprint(name, ".", n), t, region)
	}
	return newTier(w, name, t, region)
}

// start begins a life.
func (t *Tier) start() {
	w := t.w
	ctx, stop := context.WithCancel(context.Background())
	l := &Life{Tier: t, store: w.counters, stop: stop}
	c := service.Config{Now: w.counters.clock}
	switch {
	case t.Link.Granter != nil:
		l.store, c.Now = l.cache(ctx), t.wall
	case w.config.divided() && !w.config.Plain:
		c.Divides, c.Reserves = true, w.counters.divided
	}
	c.Store, c.Share = w.wraps(l.store, Served, l), l.share
	l.Service = service.NewService(c)
	must(l.Service.SetRules(w.rules))
	l.handler = service.NewHandler(l.Service, nil)
	t.Life = l
}

// Restart loses all leases and all that waits, also of the tiers of the same process between this one and the
// counters.
func (t *Tier) Restart() {
	for ; t.Link.Granter != nil; t = t.Link.Granter {
		t.again()
	}
}

// again ends a life and begins another one.
func (t *Tier) again() {
	t.Over = true
	t.stop()
	t.w.mail.stirred = t.w.mail.on
	t.start()
}

// Pause has it answer nobody for so long.
func (t *Tier) Pause(d limit.Micros) { t.paused = t.w.now + d }

// wall is the time of day in the tier's region.
func (t *Tier) wall() limit.Micros {
	if t.Home != nil {
		return t.Home.Clock()
	}
	return t.w.Clock()
}

// cache makes a lease cache over a link to the granter.
func (l *Life) cache(ctx context.Context) engine.Store {
	w, t := l.Tier.w, l.Tier
	c := leasecache.Config{
		MaxKeys: cmp.Or(w.config.MaxCounters, 1<<16), MaxBytes: maxBytes, Timeout: w.patience(),
		Now:  func() lease.Millis { return lease.Millis((w.virtual() + t.offset) / limit.Millisecond) },
		Wall: t.wall, Jitter: w.jitter(),
	}
	if t.Region != "" { // as a region that calls an aggregator
		c.Answers = 250 * time.Millisecond
		c.Replicas = func() int { return w.config.Replicas }
	}
	if t.Home != nil {
		return t.Home.replica(ctx, l, c)
	}
	c.Store = &uplink{t.Link, l}
	cache := leasecache.New(c)
	go func() { _ = cache.Run(ctx) }()
	return w.wraps(cache, Cached, l)
}

// patience is the longest timeout of a rule in force.
func (w *World) patience() (longest time.Duration) {
	for i := range w.rules.Len() {
		r := w.rules.Rule(i)
		if len(r.Limits) > 0 {
			t := lease.NewTerms(w.rules.Limit(i, 0), r.Consistency, 0, lease.Millis(r.Timeout/limit.Millisecond), r.Overdraft)
			longest = max(longest, time.Duration(t.Timeout)*time.Millisecond)
		}
	}
	return longest
}

// handle answers a call: in this event, or where a cache may wait for the granter in a
// goroutine.
func (t *Tier) handle(c *Call) {
	w := t.w
	if wait := t.paused - w.now; wait > 0 {
		w.After(wait, func() { t.handle(c) })
		return
	}
	w.serial++
	c.Serial, c.By = w.serial, t.Life
	w.passes(c, Comes)
	if t.Link.Granter == nil {
		c.answer(c.serve(c, c.By))
		return
	}
	w.mail.stirred = true
	w.crew.do(func() {
		ok := c.serve(c, c.By)
		w.mail.post(post{name: "call " + t.Name, n: c.Serial, do: func() { c.answer(ok) }})
	})
}

// answer sends the answer to a call. A tier that has restarted meanwhile answers nobody; and
// what a caller was granted that has hung up went back.
func (c *Call) answer(ok bool) {
	if ok && !c.By.Over && c.ctx.Err() == nil {
		c.Link.w.passes(c, Answered)
		c.Link.reply(c)
	}
}
