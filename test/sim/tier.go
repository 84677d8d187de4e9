package sim

import (
	"context"
	"net/http"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/service"
)

// tier grants leases to those below it: PoPs, by its service, or tiers, by its store. It
// has the counters, or a lease cache over a link to the tier above.
type tier struct {
	w      *World
	name   string
	above  *tier        // nil: it has the counters
	region string       // that it belongs to; empty: there is only one
	home   *region      // the region, if it has a share
	link   *link        // to the tier above
	offset limit.Micros // its monotonic clock, from virtual time
	paused limit.Micros // until then it answers nobody
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
	seen    *seen[callName]   // calls that have come
	held    map[leaseID]int64 // units that the tier was granted and has not handed on
	stamps  map[leaseID]stamp // of what it was granted; of the counters: of what they granted
}

// leaseID names a lease of a counter.
type leaseID struct {
	key   counterKey
	lease uint32
}

// lot is units of a lease.
type lot struct {
	leaseID
	units int64
}

// stamp is what the referee keeps of a grant.
type stamp struct {
	charged limit.Micros // virtual time at which units for waiting requests were charged
	from    limit.Micros // virtual time from which spare units may be spent
	until   limit.Micros // and until when
}

// newTier makes a tier over another; nil: it has the counters.
func newTier(w *World, name string, above *tier, region string) *tier {
	t := &tier{w: w, name: name, above: above, region: region}
	if !w.Steady {
		t.offset = limit.Micros(w.rand.Int64N(int64(limit.Second)))
	}
	t.link = &link{w: w, net: &w.Net, from: name, above: above}
	if region != "" {
		t.link.net = &w.Far
	}
	for _, h := range w.regions {
		if h.name == region {
			t.home, t.link.net = h, h.net
		}
	}
	t.start()
	w.tiers = append(w.tiers, t)
	return t
}

// newRelay makes a process with as many lease caches, one above the other, as the run has.
func newRelay(w *World, name, region string) *tier {
	t := w.region()
	for n := w.Depth; n > 1; n-- {
		t = newTier(w, name+"."+itoa(n), t, region)
	}
	return newTier(w, name, t, region)
}

// start begins a life.
func (t *tier) start() {
	w := t.w
	ctx, stop := context.WithCancel(context.Background())
	l := &life{tier: t, store: w.counters, stop: stop, seen: newSeen[callName](), held: map[leaseID]int64{}, stamps: map[leaseID]stamp{}}
	now := w.counters.clock
	if t.above != nil {
		l.store, now = l.cache(ctx), t.wall
	}
	c := service.Config{Store: witness{l.store}, Now: now}
	if t.above == nil && len(w.Shares) > 0 {
		c.Divides, c.Reserves = true, w.counters.divided
	}
	l.service = service.NewService(c)

	l.handler = service.NewHandler(l.service, nil)
	t.life = l
	t.setRules()
}

// wall is the time of day in the tier's region.
func (t *tier) wall() limit.Micros {
	if t.home != nil {
		return t.home.clock()
	}
	return t.w.wall()
}

func (t *tier) setRules() {
	if err := t.service.SetRules(t.w.rules.set); err != nil {
		panic(err)
	}
}

// cache makes a lease cache over a link to the tier above.
func (l *life) cache(ctx context.Context) engine.Store {
	w, t := l.tier.w, l.tier
	timeout := time.Duration(0)
	for _, rule := range w.rules.list {
		timeout = max(timeout, time.Duration(rule.Terms.Timeout)*time.Millisecond)
	}
	c := leasecache.Config{
		MaxKeys: min(1<<16, w.MaxCounters), MaxBytes: 1 << 30, Timeout: timeout,
		Now:  func() lease.Millis { return lease.Millis((w.Now() + t.offset) / limit.Millisecond) },
		Wall: t.wall,
	}
	if t.region != "" { // as a region that calls an aggregator
		c.Answers = 250 * time.Millisecond
		c.Replicas = func() int { return w.Relays / max(w.Regions, 1) }
	}
	if t.home != nil {
		return t.home.replica(ctx, l, c)
	}
	c.Store = &uplink{t.link, l}
	cache := leasecache.New(c)
	go func() { _ = cache.Run(ctx) }()
	return w.spoil(cache, w.Fault.cache)
}

// restart loses all leases and all that waits, also of the tiers of the same process
// between this one and the counters.
func (t *tier) restart() {
	t.w.tracef("%s restarts", t.name)
	t.w.ref.forgetful()
	for ; t.above != nil; t = t.above {
		t.end()
		t.start()
	}
}

// end ends a life.
func (l *life) end() {
	l.over = true
	for id, units := range l.held {
		l.tier.w.ref.vanished(id.key, max(units, 0))
	}
	clear(l.held)
	l.stop()
	l.tier.w.mail.stirred = l.tier.w.mail.on
}

// handle answers a call: in this event, or where a cache may wait for the tier above in a
// goroutine.
func (t *tier) handle(c *call) {
	w, by := t.w, t.life
	if wait := t.paused - w.now; wait > 0 {
		w.after(wait, func() { t.handle(c) })
		return
	}
	w.serial++
	c.since, c.serial = w.now, w.serial
	by.comes(c)
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

// comes notes a call that has come. What it gives back may be handed on again, unless it is a
// copy.
func (l *life) comes(c *call) {
	if c.name != (callName{}) && l.seen.add(c.name) > 1 {
		return
	}
	if l.tier.above == nil || c.aside {
		return
	}
	for i := range c.items {
		if back := c.items[i].back(); back.units > 0 {
			l.tier.w.ref.account(back.key).returns(back.lease, -back.units)
			l.holds(back)
		}
	}
}

// answer sends the answer to a call. A tier that has restarted meanwhile answers nobody; and
// what a caller was granted that has hung up went back.
func (l *life) answer(c *call, ok bool) {
	if !ok || l.over || c.ctx.Err() != nil {
		return
	}
	l.tier.w.ref.accepted(l, c)
	for i := range c.items {
		if it := &c.items[i]; it.granted().units > 0 {
			l.hands(it.granted())
			it.stamp = l.stamp(it.granted().leaseID, c.since)
		}
	}
	c.link.reply(c)
}

// hands notes units that a tier has handed out. It has no more than it was granted.
func (l *life) hands(u lot) {
	if l.tier.above == nil {
		return
	}
	l.holds(lot{u.leaseID, -u.units})
	if missing := -l.held[u.leaseID]; missing > 0 && !l.over {
		l.tier.w.ref.fail(1, "%v at %s: %d more units were handed on than there were", u.key, l.tier.name, missing)
	}
}

// holds notes units that a tier has more.
func (l *life) holds(u lot) {
	if l.held[u.leaseID] += u.units; l.held[u.leaseID] == 0 {
		delete(l.held, u.leaseID)
	}
}

// sends makes a call of the tier above, which gives back what it names.
func (l *life) sends(c *call) {
	l.tier.w.ref.sent(c)
	for i := range c.items {
		if back := c.items[i].back(); back.units > 0 {
			l.hands(back)
		}
	}
	c.link.send(c)
}

// receives notes the answer of the tier above.
func (l *life) receives(c *call) {
	for i := range c.items {
		if got := c.items[i].granted(); got.units > 0 {
			l.gets(got, c.items[i].stamp)
		}
	}
	l.tier.w.mail.stirred = true
}

// gets notes what the tier above has granted.
func (l *life) gets(u lot, s stamp) {
	l.holds(u)
	if w := l.tier.w; l.tier.region != "" && w.rules.find(u.key.rule).Spec.Algorithm == limit.FixedWindow {
		// It lasts until a lease of the next window begins: at most the longest trip longer.
		s.until += limit.Second / 2
	}
	if old, known := l.stamps[u.leaseID]; known {
		s.from, s.until = min(s.from, old.from), max(s.until, old.until)
	}
	l.stamps[u.leaseID] = s
}

// stamp is that of a grant which the tier made of a lease for a call that came at since.
// Units of a grant that has arrived meanwhile were charged for that call.
func (l *life) stamp(id leaseID, since limit.Micros) stamp {
	s := l.stamps[id]
	if s.charged < since {
		s.charged = l.tier.w.now
	}
	return s
}

// witness notes that a service asks its store for a call: it has accepted it.
type witness struct{ engine.Store }

type witnessed struct{}

func (s witness) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	ctx.Value(witnessed{}).(*call).accepted = true
	s.Store.Acquire(ctx, asks, grants)
}
