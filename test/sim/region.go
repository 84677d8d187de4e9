package sim

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/limiter/memory"
	"github.com/weirlimit/weir/wasmfilter/edge"
)

// replica is a process of the region: its service, and what stands between that and the
// counters.
type replica struct {
	w       *World
	name    string
	life    int
	offset  limit.Micros // its monotonic clock, from virtual time
	caches  []*cache     // the nearest to the PoPs first; none next to the counters
	service *limiter.Service
	handler http.Handler
	stop    context.CancelFunc
	seen    map[seen]int
}

// seen is a call that has come to a replica.
type seen struct {
	holder      string
	worker, seq uint64
}

func newReplica(w *World, n int) *replica {
	r := &replica{w: w, name: "r" + itoa(n)}
	if !w.Steady {
		r.offset = limit.Micros(w.rand.Int64N(int64(limit.Second)))
	}
	r.start()
	return r
}

// start begins a life of the process.
func (r *replica) start() {
	w := r.w
	r.life++
	r.seen = map[seen]int{}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	var store limiter.Store = w.granter
	now := w.granter.clock
	if w.Relays > 0 {
		r.caches = make([]*cache, w.Depth)
		for i := w.Depth - 1; i >= 0; i-- {
			r.caches[i] = newCache(ctx, r, i, store)
			store = r.caches[i].front
		}
		now = func() limit.Micros { return w.Now() - epochStart + w.Start }
	}
	r.service = limiter.NewService(limiter.Config{Store: &witness{w.overCaches(store)}, Now: now, NoLearning: !w.Learning})
	r.handler = limiter.NewHandler(r.service, nil)
	r.setRules()
}

func (r *replica) setRules() {
	if err := r.service.SetRules(r.w.rules.set); err != nil {
		panic(err)
	}
}

// restart loses all leases and all that waits.
func (r *replica) restart() {
	r.w.tracef("%s restarts", r.name)
	r.w.ref.forgetful()
	for _, c := range r.caches {
		c.forget()
	}
	r.stop()
	r.w.mail.stirred = r.w.mail.on
	r.start()
}

// visit is a call at a replica, with what its store was asked meanwhile.
type visit struct {
	asked bool
	left  bool // the caller has hung up: what it was granted went back
	since limit.Micros
	takes []take // of the nearest cache
}

// take is units that a store has handed out, or taken back where they are negative.
type take struct {
	key   counterKey
	lease uint32
	units int64
}

type visitKey struct{}

// witness notes what a service asks its store for a call.
type witness struct{ limiter.Store }

func (t *witness) Acquire(ctx context.Context, asks []limiter.Ask, grants []lease.Grant) {
	t.Store.Acquire(ctx, asks, grants)
	v := ctx.Value(visitKey{}).(*visit)
	for i := range asks {
		a := &asks[i]
		switch {
		case a.Holder != 0: // slots
		case grants[i].Granted > 0:
			v.takes = append(v.takes, take{keyOf(a), grants[i].Lease, grants[i].Granted})
		case v.asked && a.Want.Unused > 0: // the caller has hung up
			v.takes = append(v.takes, take{keyOf(a), a.Want.Lease, -a.Want.Unused})
			v.left = true
		}
	}
	v.asked = true
}

func keyOf(a *limiter.Ask) counterKey {
	return counterKey{a.Policy.Rule, a.Policy.Limit.Shape(), string(a.Key)}
}

// handle answers a call of a PoP: in this event, or where caches may wait for the tier
// above in a goroutine.
func (r *replica) handle(ctx context.Context, f *flight, answer func(reply)) {
	w := r.w
	if wait := w.granter.paused - w.now; wait > 0 && len(r.caches) == 0 {
		w.after(wait, func() { r.handle(ctx, f, answer) })
		return
	}
	if f.path == edge.AcquirePath {
		r.seen[f.name()]++
	}
	v := &visit{since: w.now}
	life, body := r.life, w.spoilDelivery(f)
	ctx = context.WithValue(ctx, visitKey{}, v)
	done := func(out []byte) {
		rep := reply{body: out}
		if life == r.life {
			rep = r.reply(f, v, out)
		}
		if out != nil && !v.left {
			answer(rep)
		}
	}
	if len(r.caches) == 0 {
		done(serve(ctx, r.handler, f, body))
		return
	}
	w.mail.stirred = true
	w.serial++
	name := "call " + r.name + " " + pad(w.serial)
	handler := r.handler
	go func() {
		out := serve(ctx, handler, f, body)
		w.post(name, func() { done(out) })
	}()
}

// reply checks an answer of Acquire and stamps its grants.
func (r *replica) reply(f *flight, v *visit, body []byte) reply {
	rep := reply{body: body}
	if f.path != edge.AcquirePath || body == nil {
		return rep
	}
	if err := rep.resp.Decode(append([]byte(nil), body...)); err != nil {
		panic(err)
	}
	r.w.ref.accepted(r, f, v.asked)
	for _, t := range v.takes {
		if len(r.caches) > 0 {
			r.caches[0].handed(t)
		}
	}
	rep.stamps = make([]stamp, len(rep.resp.Grants))
	for i := range rep.resp.Grants {
		if g := &rep.resp.Grants[i]; g.Granted > 0 {
			key := r.w.rules.of(f.req.Wants[i].Rule, f.req.Wants[i].Key)
			rep.stamps[i] = r.stamp(key, uint32(g.Lease), v.since)
		}
	}
	return rep
}

func (r *replica) stamp(key counterKey, id uint32, since limit.Micros) stamp {
	if len(r.caches) == 0 {
		return r.w.granter.leases[leaseID{key, id}]
	}
	return r.caches[0].stamp(leaseID{key, id}, since)
}

// serve has a handler answer a call; nil if it refuses it.
func serve(ctx context.Context, h http.Handler, f *flight, body []byte) []byte {
	req := (&http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: f.path}, ProtoMajor: 2,
		Header:        http.Header{"Content-Type": {"application/proto"}, "Connect-Timeout-Ms": {strconv.FormatInt(int64(f.timeout), 10)}},
		Body:          io.NopCloser(bytes.NewReader(body)),
		ContentLength: int64(len(body)),
	}).WithContext(ctx)
	out := httptest.NewRecorder()
	h.ServeHTTP(out, req)
	if out.Code != http.StatusOK {
		return nil
	}
	return out.Body.Bytes()
}

// granter has the counters of the region, as its store. It runs in the run's own
// goroutine only.
type granter struct {
	w      *World
	step   limit.Micros // its clock, from virtual time
	paused limit.Micros // until then it answers nobody
	memory *memory.Store
	store  limiter.Store // the memory, or what is broken on purpose round it
	leases map[leaseID]stamp
	names  map[uint64]bool // of what has come back
	debts  map[debtID]bool // that were told
}

// debtID names a debt as a store knows it again.
type debtID struct {
	key  counterKey
	debt uint64
}

func newGranter(w *World) *granter {
	g := &granter{w: w, step: w.Start - epochStart, leases: map[leaseID]stamp{}}
	g.start()
	return g
}

// start begins a life without the counters of the one before.
func (g *granter) start() {
	g.memory = memory.New(memory.Config{MaxKeys: g.w.MaxCounters, MaxBytes: 1 << 30, Now: g.clock})
	g.store = g.w.spoilStore(g.memory)
	g.names, g.debts = map[uint64]bool{}, map[debtID]bool{}
}

func (g *granter) clock() limit.Micros { return g.w.Now() + g.step }

func (g *granter) Epoch() uint64 { return g.memory.Epoch() }

// Acquire asks the store, with the referee looking at it.
func (g *granter) Acquire(ctx context.Context, asks []limiter.Ask, grants []lease.Grant) {
	g.w.ref.checkMemory("region", g.memory.Stats().Keys, g.w.MaxCounters)
	measured := g.measure(asks)
	g.store.Acquire(ctx, asks, grants)
	for i := range asks {
		g.w.ref.settled(&asks[i], &grants[i])
		g.granted(&asks[i], &grants[i])
	}
	g.measured(measured, asks, grants)
}

// peek is how much is left of a counter.
func (g *granter) peek(p *limiter.Policy, key string) int64 {
	grants := make([]lease.Grant, 1)
	g.memory.Acquire(context.Background(), []limiter.Ask{{Policy: p, Key: []byte(key)}}, grants)
	return grants[0].Remaining
}

func (g *granter) left(r *Rule, key string) int64 {
	return g.peek(g.w.replicas[0].service.Policy(r.Name, 0), key)
}

// granted stamps a grant and tells the referee.
func (g *granter) granted(a *limiter.Ask, out *lease.Grant) {
	if a.Holder != 0 {
		return
	}
	g.w.ref.granted(a, out)
	if out.Granted == 0 {
		return
	}
	w, l := g.w, a.Policy.Limit
	s := stamp{charged: w.now, from: w.now, until: w.now + limit.Micros(out.TTL)*limit.Millisecond}
	if inWindows(l) {
		start := l.PeriodFromID(g.clock(), out.Lease) - g.step
		s.until = min(s.until, start+l.Spec().Period+limit.Millisecond-1) // a lease knows its window to the millisecond
		if out.StartsIn > 0 {
			s.from = start
		}
	}
	g.leases[leaseID{keyOf(a), out.Lease}] = s
}

// leaseID names a lease of a counter.
type leaseID struct {
	key   counterKey
	lease uint32
}

// stamp is what the referee knows of a grant.
type stamp struct {
	charged limit.Micros // virtual time at which units for waiting requests were charged
	from    limit.Micros // virtual time from which spare units may be spent
	until   limit.Micros // and until when
}
