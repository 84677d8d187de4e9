package sim

import (
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// pop is an Envoy: workers, and what they share.
type pop struct {
	w      *World
	name   string
	link   *link
	offset limit.Micros // its clock, from virtual time
	paused limit.Micros // until then it does nothing
	ticks  func()       // tick, as an event
	life   uint64       // counts restarts

	shared  *shared
	workers []*edge.Worker
	seed    table.Seed
	reader  *table.Table
	input   rule.Request
	waiting map[*edge.Request]*request
	books   map[counterKey]*book // what the referee follows, see book.go
	event   []*book              // touched by the event that runs
	decided []*request
	apart   uint64          // counts calls that no worker has made
	newest  map[int]*flight // by worker
}

// Part is what a request costs on one rule.
type Part struct {
	Rule *Rule
	Key  string
	Cost int64
}

// request is a client's, at one PoP.
type request struct {
	parts    []Part
	edge     edge.Request
	arrived  limit.Micros
	admitted bool
	failed   bool // the region was not asked, or did not answer in time
	ended    bool // nobody holds it any more: it may be another one
	// Of a request for a slot: how long its stream lasts, and what happens when it begins
	// and ends.
	lasts       limit.Micros
	begin, over func()
}

func newPoP(w *World, n int, above *tier) *pop {
	p := &pop{w: w, name: "h" + itoa(n)}
	p.link = &link{w: w, net: &w.Net, from: p.name, above: above}
	first := limit.Micros(0)
	if !w.Steady {
		p.offset = limit.Micros(w.rand.Int64N(int64(limit.Second)))
		first = limit.Micros(w.rand.Int64N(int64(100 * limit.Millisecond)))
	}
	p.start()
	p.ticks = p.tick
	w.after(first, p.ticks)
	return p
}

// start begins a life: a new process with a new identity, which remembers nothing.
func (p *pop) start() {
	w := p.w
	p.life++
	w.ref.lives++
	p.shared = &shared{}
	p.newest = map[int]*flight{}
	p.waiting, p.books = map[*edge.Request]*request{}, map[counterKey]*book{}
	cfg, err := rulebook.ReadConfig(w.rules.config())
	if err != nil {
		panic(err)
	}
	p.seed = table.Seed{w.rand.Uint64(), w.rand.Uint64()}
	id := w.rand.Uint64()
	p.workers = p.workers[:0]
	for range w.Workers {
		entropy := [6]uint64{id, id, p.seed[0], p.seed[1], w.rand.Uint64(), w.rand.Uint64()}
		p.workers = append(p.workers, edge.New(cfg, p.shared, entropy, p.now(), p.link.above.wall()))
	}
	p.reader = table.New(p.shared, 'E', pagesLog2, nil)
	for i := range p.workers {
		p.finish(i)
	}
}

func (p *pop) now() lease.Millis { return lease.Millis((p.w.now + p.offset) / limit.Millisecond) }

// virtual is the virtual time at which the PoP's clock will show t.
func (p *pop) virtual(t lease.Millis) limit.Micros {
	return limit.Micros(t)*limit.Millisecond - p.offset
}

// tick is what a PoP does ten times a second.
func (p *pop) tick() {
	if p.w.now >= p.paused {
		for i, x := range p.workers {
			x.Tick(p.now(), p.link.above.wall())
			p.finish(i)
		}
	}
	p.w.ref.checkMemory(p.name, p.shared.size, table.Bytes(1<<pagesLog2))
	p.w.after(100*limit.Millisecond, p.ticks)
}

// request is a client's request, now.
func (p *pop) request(parts ...Part) *request {
	r := new(request)
	p.take(r, parts)
	return r
}

// take takes a new request, or one that has ended and is another one now.
func (p *pop) take(r *request, parts []Part) {
	*r = request{parts: parts, edge: r.edge, arrived: p.w.now}
	for i := range parts {
		if most := parts[i].Rule.Terms.Capacity; parts[i].Cost > most { // as a rule bounds it
			r.parts = slices.Clone(r.parts)
			r.parts[i].Cost = most
		}
	}
	p.w.ref.offered(r)
	if p.paused > p.w.now {
		p.awake(func() { p.decide(r) })
	} else {
		p.decide(r)
	}
}

// awake does something now, or when a pause is over.
func (p *pop) awake(do func()) {
	if wait := p.paused - p.w.now; wait > 0 {
		p.w.after(wait, func() { p.awake(do) })
		return
	}
	do()
}

// decide takes a request to a worker.
func (p *pop) decide(r *request) {
	if denies := p.w.Fault.denies; denies != nil && denies(p, r.parts[0]) {
		p.w.ref.finished(r)
		return
	}
	n := 0
	if len(p.workers) > 1 {
		n = p.w.rand.IntN(len(p.workers))
	}
	x := p.workers[n]
	in := x.Inputs()
	p.input.Reset(in)
	for _, part := range r.parts {
		p.input.Add(in, part.Rule.header, part.Key)
		if part.Cost > 1 {
			p.input.Add(in, part.Rule.costHeader, strconv.FormatInt(part.Cost, 10))
		}
	}
	x.Match(&p.input)
	if x.Decide(p.now(), &r.edge) == edge.Wait {
		p.waiting[&r.edge] = r
		p.w.ref.waits(r)
		p.decides(r)
	} else {
		p.decided = append(p.decided, r)
	}
	p.finish(n)
}

// finish takes what a worker wants done after an event, and has it checked.
func (p *pop) finish(n int) {
	x := p.workers[n]
	for _, e := range x.Decided {
		p.decided = append(p.decided, p.waiting[e])
		delete(p.waiting, e)
	}
	calls := x.Calls
	x.Decided, x.Calls = x.Decided[:0], nil
	for _, r := range p.decided {
		r.admitted, r.failed = r.edge.Outcome == edge.Admit, r.edge.Degraded
		p.decides(r)
		if spoil := p.w.Fault.taken; spoil != nil {
			spoil(p, r)
		}
		p.w.ref.finished(r)
		if r.begin != nil && r.admitted {
			r.begin()
		}
	}
	var flights []*flight
	if len(calls) > 0 {
		flights = make([]*flight, len(calls))
	}
	for i := range calls {
		flights[i] = p.flight(n, &calls[i])
	}
	if spoil := p.w.Fault.table; spoil != nil {
		spoil(p)
	}
	p.audit()
	for _, r := range p.decided {
		p.end(n, r)
	}
	p.decided = p.decided[:0]
	for _, f := range flights {
		f.leave()
	}
}

// end ends a request: at once, or when its stream is over if it holds a slot.
func (p *pop) end(n int, r *request) {
	life := p.life
	if r.lasts == 0 || !r.admitted {
		p.workers[n].End(p.now(), &r.edge)
		r.ended = true
		return
	}
	p.w.after(r.lasts, func() {
		r.over()
		if life == p.life {
			p.workers[n].End(p.now(), &r.edge)
			p.finish(n)
		}
	})
}

// tableKey names a key's entry in the PoP's table, as package edge does.
func (p *pop) tableKey(k counterKey) table.Key {
	id := p.seed.Hash(k.shape<<24, []byte(k.rule))
	return table.Key{Hash: p.seed.Hash(id, []byte(k.key)), Rule: uint32(id), Text: []byte(k.key)}
}

// entry reads what the PoP keeps of a key.
func (p *pop) entry(k counterKey) *table.Entry { return p.reader.Open(p.tableKey(k)) }
