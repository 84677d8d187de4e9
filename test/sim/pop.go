package sim

import (
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/test/world"
	"github.com/weirlimit/weir/wasmfilter/edge"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

type pop struct {
	*world.PoP
	w      *World
	life   uint64 // that it follows
	seed   table.Seed
	reader *table.Table
	books  map[counterKey]*book // see book.go
	event  []*book              // touched by the event that runs
	apart  uint64               // counts calls that no worker has made
}

func (w *World) pop(of *world.PoP) *pop {
	p, _ := of.Notes.(*pop)
	if p == nil {
		p = &pop{PoP: of, w: w}
		of.Notes = p
	}
	if p.life != of.Life {
		w.ref.lives++
		p.life, p.books = of.Life, map[counterKey]*book{}
		var store table.Store
		store, _, p.seed = of.Table()
		p.reader = table.New(store, 'E', pagesLog2, nil)
	}
	return p
}

// Happened has what a PoP did checked.
func (w *World) Happened(of *world.PoP) {
	p := w.pop(of)
	if spoil := w.Fault.table; spoil != nil {
		spoil(p)
	}
	p.audit()
	_, bytes, _ := of.Table()
	w.ref.checkMemory(p.Name, bytes, table.Bytes(1<<pagesLog2))
}

// virtual is the virtual time at which the PoP's clock will show t.
func (p *pop) virtual(t lease.Millis) limit.Micros { return p.w.now() + p.Until(t) }

// Part is what a request costs on one rule.
type Part struct {
	Rule *Rule
	Key  string
	Cost int64
}

// request is a client's, at one PoP.
type request struct {
	world.Request
	p        *pop
	parts    []Part
	arrived  limit.Micros
	decided  bool
	admitted bool
	failed   bool // the region was not asked, or did not answer in time
	ended    bool // nobody holds it any more: it may be another one
	// Of a request for a slot: what happens when its stream begins and ends.
	begin, over func()
}

// take takes a new request, or one that has ended and is another one now.
func (p *pop) take(r *request, parts []Part) {
	*r = request{Request: r.Request, p: r.p, parts: parts, arrived: p.w.now()}
	for i := range parts {
		if most := parts[i].Rule.Terms.Capacity; parts[i].Cost > most { // as a rule bounds it
			r.parts = slices.Clone(r.parts)
			r.parts[i].Cost = most
		}
	}
	p.w.ref.offered(r)
	p.Awake(func() { p.decide(r) })
}

func (p *pop) decide(r *request) {
	if denies := p.w.Fault.denies; denies != nil && denies(p, r.parts[0]) {
		p.w.ref.finished(r)
		return
	}
	if r.p == nil {
		r.Fill, r.Decided, r.Ended = r.fill, r.finish, r.end
	}
	r.p = p
	p.decides(r)
	if p.Request(&r.Request); !r.decided {
		p.w.ref.waits(r)
	}
}

// fill states the parts of a request.
func (r *request) fill(in *rule.Inputs, q *rule.Request) {
	q.Reset(in)
	for _, part := range r.parts {
		q.Add(in, part.Rule.header, part.Key)
		if part.Cost > 1 {
			q.Add(in, part.Rule.costHeader, strconv.FormatInt(part.Cost, 10))
		}
	}
}

func (r *request) finish(*world.Request) {
	r.decided, r.admitted, r.failed = true, r.Edge.Outcome == edge.Admit, r.Edge.Degraded
	r.p.decides(r)
	if spoil := r.p.w.Fault.taken; spoil != nil {
		spoil(r.p, r)
	}
	r.p.w.ref.finished(r)
	if r.begin != nil && r.admitted {
		r.begin()
	}
}

func (r *request) end(*world.Request) {
	if r.ended = true; r.over != nil && r.admitted {
		r.over()
	}
}

// tableKey names a key's entry in the PoP's table, as package edge does.
func (p *pop) tableKey(k counterKey) table.Key {
	id := p.seed.Hash(k.shape<<24, []byte(k.rule))
	return table.Key{Hash: p.seed.Hash(id, []byte(k.key)), Rule: uint32(id), Text: []byte(k.key)}
}

// entry reads what the PoP keeps of a key.
func (p *pop) entry(k counterKey) *table.Entry { return p.reader.Open(p.tableKey(k)) }
