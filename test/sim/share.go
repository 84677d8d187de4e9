package sim

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/limiter/front"
	"github.com/weirlimit/weir/internal/remote"
	"github.com/weirlimit/weir/internal/telemetry"
)

// shareholder is a region with a static share: what its replicas have in common, and what the
// referee follows of it. Its replicas call the aggregator as those of the product do.
type shareholder struct {
	w     *World
	name  string
	wrong limit.Micros // by how much its clock is ahead of the right time
	store engine.Store

	mu     sync.Mutex
	newest limit.Micros // the newest receipt on its clock, as its replicas record it; 0: none

	replies []limit.Micros // virtual times at which replies were received, or a replica began
	steps   []limit.Micros // and of steps of its clock, or of the aggregator's
	fills   int            // of its share of a bucket: one in each silence, and with each step forward
	taken   limit.Micros   // when it took a part of its share last
	names   *seen[uint64]  // of what has come back
	parts   map[leaseID]*part
}

// part is what a region took of its share in one window of its clock.
type part struct {
	periods []uint32 // windows of the aggregator's clock that it touches
	spent   tally
}

// shareTag distinguishes leases of a share from those of the aggregator.
const shareTag = 1 << 31

func newShareholder(w *World, name string) *shareholder {
	h := &shareholder{w: w, name: name, replies: []limit.Micros{w.now}, names: newSeen[uint64](), parts: map[leaseID]*part{}}
	h.store = w.spoil(memory.New(memory.Config{MaxKeys: w.MaxCounters, MaxBytes: 1 << 30, Now: h.clock}), w.Fault.share)
	return h
}

func (h *shareholder) clock() limit.Micros { return h.w.wall() + h.wrong }

// virtual is the virtual time at which the region's clock shows t.
func (h *shareholder) virtual(t limit.Micros) limit.Micros {
	return t - h.wrong - h.w.Start + epochStart
}

// Receipt is the record of the region's store, see [limiter.Record].
func (h *shareholder) Receipt(_ context.Context, renew bool) (limiter.Receipt, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock()
	if renew || h.newest == 0 {
		h.newest = now
	}
	if spoil := h.w.Fault.receipt; spoil != nil {
		return limiter.Receipt{Now: now, Newest: spoil(h.newest)}, nil
	}
	return limiter.Receipt{Now: now, Newest: h.newest}, nil
}

// noteReply notes a reply of the aggregator.
func (h *shareholder) noteReply() { h.replies = append(h.replies, h.w.now) }

// replica is the store of one of its replicas: the aggregator behind a lease cache, and its
// static share while that is silent. c is the configuration of the cache.
func (h *shareholder) replica(ctx context.Context, l *life, c front.Config) engine.Store {
	receipts := limiter.NewReceipts(h, slog.New(slog.DiscardHandler))
	far, err := remote.New(remote.Config{
		Addresses: []string{"aggregator"}, Region: h.name, Receipts: receipts, Transport: &wired{l.tier.link, l},
		Rules: func() (string, uint64) { return l.service.RulesVersion() },
	})
	if err != nil {
		panic(err)
	}
	c.Store = far
	cache := front.New(c)
	for _, run := range []func(context.Context) error{far.Run, cache.Run, receipts.Run} {
		go func() { _ = run(ctx) }()
	}
	return limiter.NewStatic(h.name, h.w.spoil(cache, h.w.Fault.cache), &ownStore{h, l}, receipts, telemetry.NewRegistry(""))
}

// ownStore is the region's own store, which counts its share, as one of its replicas calls it.
type ownStore struct {
	*shareholder
	of *life
}

func (s *ownStore) Epoch() uint64 { return s.store.Epoch() }

// Acquire is called by goroutines of the replica. All are answered at the same instant, but in
// order, and the referee sees it.
func (s *ownStore) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	asks = copied(asks)
	answer := make(chan []lease.Grant, 1)
	a := &asks[0]
	s.w.mail.post(post{name: "share " + s.of.tier.name, key: string(a.Key), n: uint64(a.Want.Want), m: uint64(a.Want.Unused), do: func() {
		granted := make([]lease.Grant, len(asks))
		s.store.Acquire(context.Background(), asks, granted)
		for i := range asks {
			s.note(s.of, &asks[i], &granted[i])
		}
		s.w.mail.stirred = true
		answer <- granted
	}})
	select {
	case granted := <-answer:
		copy(grants, granted)
	case <-ctx.Done():
		for i := range grants {
			grants[i] = lease.Grant{Status: lease.Unavailable}
		}
	}
}

// note follows what a replica gave back to the share, and was granted of it.
func (h *shareholder) note(l *life, a *engine.Ask, g *lease.Grant) {
	ref, r := h.w.ref, h.w.rules.find(strings.TrimPrefix(a.Policy.Rule, "share of "))
	key := r.counter(string(a.Key))
	own := lot{leaseID{key, a.Want.Lease ^ shareTag}, a.Want.Unused}
	for _, back := range a.Returned {
		own.units -= back.Units
		if h.names.add(back.Name) == 1 {
			ref.returned(lot{own.leaseID, back.Units})
		}
	}
	if own.units > 0 {
		l.hands(own)
		ref.vanished(key, own.units)
	}
	if g.Granted == 0 {
		return
	}
	ref.granted(&item{key: key, want: a.Want, grant: *g})
	id := leaseID{key, g.Lease ^ shareTag}
	from, until := h.takes(ref.account(key), id)
	l.gets(lot{id, g.Granted}, stamp{charged: h.w.now, from: from, until: min(until, h.w.now+limit.Micros(g.TTL)*limit.Millisecond)})
}

// takes follows a lease of the share: it returns in which virtual time its units may be spent.
func (h *shareholder) takes(a *account, id leaseID) (from, until limit.Micros) {
	w, l, now := h.w, a.rule.Limit, h.w.now
	if h.replies[len(h.replies)-1] > h.taken {
		h.fills++
	}
	h.taken = now
	p := h.parts[id]
	if p == nil {
		p = &part{}
		h.parts[id] = p
	}
	p.spent.at = now
	if !inWindows(l) {
		w.ref.checkSilence(h, a, now, recordLate+limit.Second)
		return now, limit.Never
	}
	begins := h.virtual(l.PeriodFromID(h.clock(), id.lease^shareTag))
	ends := begins + l.Spec().Period
	w.ref.checkSilence(h, a, begins, recordLate)
	for _, at := range []limit.Micros{begins, ends - 1} {
		clock := at + w.counters.step
		if period := l.PeriodID(clock - clock%l.Spec().Period); !slices.Contains(p.periods, period) {
			p.periods = append(p.periods, period)
		}
	}
	return max(begins, 0), ends + limit.Millisecond - 1
}

// stepsBy sets the region's clock forward or back.
func (h *shareholder) stepsBy(by limit.Micros) {
	h.w.tracef("the clock of %s steps by %d ms", h.name, by/limit.Millisecond)
	h.mu.Lock()
	h.wrong += by
	h.mu.Unlock()
	if by > 0 {
		h.fills++
	}
	if h.w.now > epochStart {
		h.steps = append(h.steps, h.w.now)
	}
}

// forget drops what no check needs any more.
func (h *shareholder) forget() {
	old := h.w.now - 10*aftermath
	since := slices.IndexFunc(h.replies, func(at limit.Micros) bool { return at > old })
	if since < 0 {
		since = len(h.replies)
	}
	h.replies = slices.Delete(h.replies, 0, max(since-1, 0))
	h.steps = slices.DeleteFunc(h.steps, func(at limit.Micros) bool { return at < old })
	maps.DeleteFunc(h.parts, func(_ leaseID, p *part) bool { return p.spent.at < old })
}
