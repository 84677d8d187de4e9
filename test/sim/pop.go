package sim

import (
	"slices"
	"strconv"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/quotapb/wire"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// pop is an Envoy: workers, and what they share.
type pop struct {
	w      *World
	name   string
	above  *replica
	offset limit.Micros // its clock, from virtual time
	paused limit.Micros // until then it does nothing
	life   uint64       // counts restarts
	liar   bool
	cut    bool // nothing that it sends arrives

	shared  *shared
	workers []*edge.Worker
	seed    table.Seed
	reader  *table.Table
	input   rule.Request
	spare   []*edge.Request
	waiting map[*edge.Request]*request
	books   map[counterKey]*book // what the referee follows, see book.go
	pages   [1 << pagesLog2][]*book
	event   []*book // touched by the event that runs
	decided []*request
	lieSeq  uint64
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
	books    [2]*book // of each part
	edge     *edge.Request
	life     uint64 // of the PoP that has it
	arrived  limit.Micros
	admitted bool
	failed   bool // the region was not asked, or did not answer in time
	// Of a request for a slot: how long its stream lasts, and what happens when it begins
	// and ends.
	lasts       limit.Micros
	begin, over func()
}

func newPoP(w *World, n int, above *replica) *pop {
	p := &pop{w: w, name: "h" + itoa(n), above: above, liar: n <= w.Liars}
	first := limit.Micros(0)
	if !w.Steady {
		p.offset = limit.Micros(w.rand.Int64N(int64(limit.Second)))
		first = limit.Micros(w.rand.Int64N(int64(100 * limit.Millisecond)))
	}
	p.start()
	w.after(first, p.tick)
	return p
}

// start begins a life: a new process with a new identity, which remembers nothing.
func (p *pop) start() {
	w := p.w
	p.life++
	w.ref.lives++
	p.shared = &shared{values: map[string]value{}}
	p.newest = map[int]*flight{}
	p.waiting, p.books = map[*edge.Request]*request{}, map[counterKey]*book{}
	clear(p.pages[:])
	cfg, err := edge.ReadConfig(w.rules.config())
	if err != nil {
		panic(err)
	}
	p.seed = table.Seed{w.rand.Uint64(), w.rand.Uint64()}
	id := w.rand.Uint64()
	p.workers = p.workers[:0]
	for range w.Workers {
		entropy := [6]uint64{id, id, p.seed[0], p.seed[1], w.rand.Uint64(), w.rand.Uint64()}
		p.workers = append(p.workers, edge.New(cfg, p.shared, entropy, p.now(), p.wall()))
	}
	p.reader = table.New(p.shared, 'E', pagesLog2, nil)
	for i := range p.workers {
		p.finish(i)
	}
}

// restart ends a life. Nobody waits any more.
func (p *pop) restart() {
	p.w.ref.forgotten(p)
	p.start()
}

func (p *pop) now() lease.Millis { return lease.Millis((p.w.now + p.offset) / limit.Millisecond) }

func (p *pop) wall() limit.Micros { return p.w.now - epochStart + p.w.Start }

// virtual is the virtual time at which the PoP's clock will show t.
func (p *pop) virtual(t lease.Millis) limit.Micros {
	return limit.Micros(t)*limit.Millisecond - p.offset
}

// tick is what a PoP does ten times a second.
func (p *pop) tick() {
	if p.w.now >= p.paused {
		for i, x := range p.workers {
			x.Tick(p.now(), p.wall())
			p.finish(i)
		}
	}
	p.w.ref.checkMemory(p.name, p.shared.size, table.Bytes(1<<pagesLog2))
	p.w.after(100*limit.Millisecond, p.tick)
}

// request is a client's request, now.
func (p *pop) request(parts ...Part) *request {
	r := &request{parts: parts, arrived: p.w.now}
	for i := range parts {
		if most := parts[i].Rule.Terms.Capacity; parts[i].Cost > most { // as a rule bounds it
			r.parts = slices.Clone(r.parts)
			r.parts[i].Cost = most
		}
	}
	p.open(r)
	p.w.ref.offered(r)
	if p.paused > p.w.now {
		p.awake(func() { p.decide(r) })
	} else {
		p.decide(r)
	}
	return r
}

// requestFor is a request for a slot, which it holds for so long.
func (p *pop) requestFor(d limit.Micros, part Part) *request {
	r := &request{parts: []Part{part}, arrived: p.w.now, lasts: d}
	p.open(r)
	return r
}

// open finds the books of a request.
func (p *pop) open(r *request) {
	r.life = p.life
	for i, part := range r.parts {
		r.books[i] = p.book(part.Rule.counter(part.Key))
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
	if p.deniesItsOwn(r) {
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
	if r.life != p.life {
		p.open(r)
	}
	for i, part := range r.parts {
		if len(r.parts) > 1 {
			r.books[i].taker, r.books[i].several = r, true // it may keep what it takes while it waits for the other
		}
		p.input.Add(in, part.Rule.header, part.Key)
		if part.Cost > 1 {
			p.input.Add(in, part.Rule.costHeader, strconv.FormatInt(part.Cost, 10))
		}
	}
	r.edge = p.spareRequest()
	if x.Decide(p.now(), &p.input, r.edge) == edge.Wait {
		p.waiting[r.edge] = r
		p.w.ref.waits(r)
	} else {
		p.decided = append(p.decided, r)
	}
	p.finish(n)
}

func (p *pop) spareRequest() *edge.Request {
	n := len(p.spare)
	if n == 0 {
		return new(edge.Request)
	}
	r := p.spare[n-1]
	p.spare = p.spare[:n-1]
	return r
}

// finish takes what a worker wants done after an event, and has it checked.
func (p *pop) finish(n int) {
	x := p.workers[n]
	if len(x.Decided)+len(x.Calls)+len(p.decided) == 0 && p.shared.dirty == 0 && len(p.event) == 0 {
		return
	}
	for _, e := range x.Decided {
		p.decided = append(p.decided, p.waiting[e])
		delete(p.waiting, e)
	}
	calls := x.Calls
	x.Decided, x.Calls = x.Decided[:0], nil
	for _, r := range p.decided {
		r.admitted, r.failed = r.edge.Outcome == edge.Admit, r.edge.Degraded
		p.admits(r)
		p.parkTake(r)
		p.w.ref.finished(r)
		if r.begin != nil && r.admitted {
			r.begin()
		}
	}
	flights := make([]*flight, len(calls))
	for i := range calls {
		flights[i] = p.flight(n, &calls[i])
	}
	p.mergeLots()
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
	e, life := r.edge, p.life
	if r.lasts == 0 || !r.admitted {
		p.workers[n].End(p.now(), e)
		p.spare = append(p.spare, e)
		return
	}
	p.w.after(r.lasts, func() {
		r.over()
		if life == p.life {
			p.workers[n].End(p.now(), e)
			p.finish(n)
		}
	})
}

// tableKey names a key's entry in the PoP's table, as package edge does.
func (p *pop) tableKey(k counterKey) table.Key {
	id := p.seed.Hash(k.shape<<24, []byte(k.rule))
	return table.Key{Hash: p.seed.Hash(id, []byte(k.key)), Rule: uint32(id), Text: []byte(k.key)}
}

// entry reads what the PoP knows of a key.
func (p *pop) entry(k counterKey) *table.Entry { return p.reader.Open(p.tableKey(k)) }

// receive takes the answer to a call, the first one.
func (p *pop) receive(f *flight, r reply) {
	p.awake(func() {
		f, r.body = p.stale(f, r.body)
		if f.done || f.life != p.life {
			p.w.ref.lostReply(f, r)
			return
		}
		f.done = true
		r.body = p.spoilReply(f, r.body)
		p.arrived(f, r)
		p.workers[f.worker].Reply(p.now(), f.id, r.body)
		p.finish(f.worker)
	})
}

// giveUp ends a call that nobody answered in time.
func (p *pop) giveUp(f *flight) {
	p.awake(func() {
		if f.done || f.life != p.life {
			return
		}
		f.done = true
		p.workers[f.worker].Failed(p.now(), f.id, edge.CallTimedOut)
		p.finish(f.worker)
	})
}

func decodeRequest(body []byte) (m wire.Request) {
	if err := m.Decode(append([]byte(nil), body...)); err != nil {
		panic(err)
	}
	return m
}
