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
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/service"
)

// tier grants leases to those below it: PoPs, by its service, or tiers, by its store. It
// has the counters, or a lease cache over a link to the tier above.
type tier struct {
	w      *World
	name   string
	above  *tier        // nil: it has the counters
	region string       // that it belongs to; empty: there is only one
	home   *region      // the region, if it has counters of its own
	link   *Link        // to the tier above
	offset limit.Micros // its monotonic clock, from virtual time
	*life
}

// life is what a tier loses when it restarts.
type life struct {
	tier    *tier
	store   engine.Store
	service *service.Service
	handler http.Handler
	stop    context.CancelFunc
	over    bool
}

// newTier makes a tier over another; nil: it has the counters.
func newTier(w *World, name string, above *tier, region string) (*tier, error) {
	t := &tier{w: w, name: name, above: above, region: region}
	if !w.config.Steady {
		t.offset = limit.Micros(w.rand.Int64N(int64(limit.Second)))
	}
	t.link = newLink(w, &w.config.Net, name, above)
	if region != "" {
		t.link.net = &w.config.Far
	}
	for _, h := range w.regions {
		if h.name == region {
			t.home = h
		}
	}
	if err := t.start(); err != nil {
		return nil, err
	}
	w.tiers = append(w.tiers, t)
	return t, nil
}

// newReplica makes a process with as many lease caches, one above the other, as the run has.
func newReplica(w *World, name, region string) (t *tier, err error) {
	t = w.tiers[0]
	for n := w.config.Depth; n > 1 && err == nil; n-- {
		t, err = newTier(w, fmt.Sprint(name, ".", n), t, region)
	}
	if err == nil {
		t, err = newTier(w, name, t, region)
	}
	return t, err
}

// start begins a life.
func (t *tier) start() error {
	w := t.w
	ctx, stop := context.WithCancel(context.Background())
	l := &life{tier: t, store: w.counters, stop: stop}
	c := service.Config{Store: w.counters, Now: w.counters.clock}
	if w.counters.divided != nil && t.above == nil && !w.config.Plain {
		c.Divides, c.Reserves = true, w.counters.divided
	}
	if t.above != nil {
		store, err := l.cache(ctx)
		if err != nil {
			stop()
			return err
		}
		l.store, c.Store, c.Now = store, store, t.wall
	}
	l.service = service.NewService(c)
	if w.config.Secret != nil {
		if err := l.service.SetSecrets([]rule.Secret{*w.config.Secret}); err != nil {
			stop()
			return err
		}
	}
	l.handler = service.NewHandler(l.service, nil)
	t.life = l
	return l.service.SetRules(w.rules)
}

// wall is the time of day in the tier's region.
func (t *tier) wall() limit.Micros { return t.w.wall() }

// cache makes a lease cache over a link to the tier above.
func (l *life) cache(ctx context.Context) (engine.Store, error) {
	w, t := l.tier.w, l.tier
	c := leasecache.Config{
		MaxKeys: cmp.Or(w.config.MaxCounters, 1<<16), MaxBytes: w.config.MaxBytes, Timeout: w.patience(),
		Now:  func() lease.Millis { return lease.Millis((w.virtual() + t.offset) / limit.Millisecond) },
		Wall: t.wall,
	}
	if t.region != "" { // as a region that calls an aggregator
		c.Answers = 250 * time.Millisecond
		c.Replicas = func() int { return w.config.Replicas }
	}
	if t.home != nil {
		return t.home.replica(ctx, l, c)
	}
	c.Store = &uplink{t.link, l}
	cache := leasecache.New(c)
	go func() { _ = cache.Run(ctx) }()
	return cache, nil
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

// handle answers a call: in this event, or where a cache may wait for the tier above in a
// goroutine.
func (t *tier) handle(c *call) {
	w, by := t.w, t.life
	w.serial++
	c.serial = w.serial
	if t.above == nil {
		by.answer(c, c.serve(c, by))
		return
	}
	w.mail.stirred = true
	w.crew.do(func() {
		ok := c.serve(c, by)
		w.mail.post(post{name: "call " + t.name, n: c.serial, do: func() { by.answer(c, ok) }})
	})
}

// answer sends the answer to a call. A tier that has restarted meanwhile answers nobody; and
// what a caller was granted that has hung up went back.
func (l *life) answer(c *call, ok bool) {
	if ok && !l.over && c.ctx.Err() == nil {
		c.link.reply(c)
	}
}
