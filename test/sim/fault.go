package sim

import (
	"context"
	"slices"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/wire"
)

// Fault is one thing broken on purpose, round the product and not in it, to prove that
// the checks see it. Each of its functions breaks what crosses one border; nil: nothing is
// broken there.
type Fault struct {
	name string

	// Of the counters, or of a lease cache: how it is asked, and what it grants.
	counters, cache func(v *visit)
	// Of a region with a share: what its own store keeps in place of a record; nil: nothing.
	record func(h *region, next []byte) []byte
	// Of a service: a call as it reads it. The serial is another one for each copy.
	served func(serial uint64, m *wire.Request)
	// Of a PoP: a call that a worker makes, one that it has sent, and a reply.
	calls   func(p *pop, m *wire.Request)
	sent    func(c *call)
	replies func(m *wire.Response)
	// Of a PoP: its table, after a request and after each event, and what it rejects
	// without asking its workers.
	taken  func(p *pop, r *request)
	table  func(p *pop)
	denies func(p *pop, part Part) bool
}

func (f Fault) String() string { return f.name }

// visit is a call of a store that a fault breaks. The asks are a copy.
type visit struct {
	*World
	store  engine.Store
	ctx    context.Context
	asks   []engine.Ask
	grants []lease.Grant
}

func (v *visit) acquire() { v.store.Acquire(v.ctx, v.asks, v.grants) }

type brokenStore struct {
	engine.Store
	w      *World
	breaks func(v *visit)
}

func (s *brokenStore) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	s.breaks(&visit{s.w, s.Store, ctx, slices.Clone(asks), grants})
}

// spoil puts a fault round a store; nil: none.
func (w *World) spoil(s engine.Store, breaks func(v *visit)) engine.Store {
	if breaks == nil {
		return s
	}
	return &brokenStore{Store: s, w: w, breaks: breaks}
}
