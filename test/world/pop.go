package world

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/settle"
	"github.com/weirlimit/weir/wasmfilter/edge"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// PoPConfig is a PoP as rules and programs see it.
type PoPConfig struct {
	Name   string
	Region string // with an aggregator it is one of its regions; else any, or empty
}

// PoP is an Envoy: workers, and what they share.
type PoP struct {
	Name    string
	Link    *Link // its way to its region
	Workers []*edge.Worker
	Life    uint64 // counts restarts
	Notes   any    // the observer's

	w      *World
	place  rule.PoP
	offset limit.Micros // its clock, from virtual time
	paused limit.Micros // until then it does nothing

	shared  *shared
	seed    table.Seed
	input   rule.Request
	waiting map[*edge.Request]*Request
	decided []*Request
}

func newPoP(w *World, c PoPConfig, granter *Tier) *PoP {
	p := &PoP{w: w, Name: c.Name, place: rule.PoP{Region: c.Region}}
	p.Link = newLink(w, &w.Net, p.Name, granter)
	first := limit.Micros(0)
	if !w.config.Steady {
		p.offset = limit.Micros(w.Rand.Int64N(int64(limit.Second)))
		first = limit.Micros(w.Rand.Int64N(int64(100 * limit.Millisecond)))
	}
	p.Restart()
	w.After(first, p.tick)
	return p
}

// Restart begins a life: a new process with a new identity, which remembers nothing. Nobody waits any more.
func (p *PoP) Restart() {
	w := p.w
	p.Life++
	p.shared, p.waiting = &shared{}, map[*edge.Request]*Request{}
	cfg := rulebook.Config{
		RegionCluster: "region", PoP: p.Name, Region: p.place.Region, Rules: w.bundled,
		PagesLog2: w.config.PagesLog2, Headers: true, Hash: 1,
	}
	p.seed = table.Seed{w.Rand.Uint64(), w.Rand.Uint64()}
	id := w.Rand.Uint64()
	p.Workers = p.Workers[:0]
	for range w.config.Workers {
		entropy := [6]uint64{id, id, p.seed[0], p.seed[1], w.Rand.Uint64(), w.Rand.Uint64()}
		p.Workers = append(p.Workers, edge.New(cfg, p.shared, entropy, p.Now(), p.wall()))
	}
	for i := range p.Workers {
		p.finish(i)
	}
}

// Now is its monotonic clock.
func (p *PoP) Now() lease.Millis { return lease.Millis((p.w.now + p.offset) / limit.Millisecond) }

// Until is how much time passes until that clock shows t.
func (p *PoP) Until(t lease.Millis) limit.Micros {
	return limit.Micros(t)*limit.Millisecond - p.offset - p.w.now
}

// wall is the time of day at its region.
func (p *PoP) wall() limit.Micros { return p.Link.Granter.wall() }

// Table is what its workers share: the keys, how many bytes of pages that are, and what keys are hashed with.
func (p *PoP) Table() (store table.Store, bytes int, seed table.Seed) {
	return p.shared, p.shared.size, p.seed
}

// Pause has it do nothing for so long, as a machine that stands still.
func (p *PoP) Pause(d limit.Micros) { p.paused = p.w.now + d }

// Awake does something now, or when a pause is over.
func (p *PoP) Awake(do func()) {
	if wait := p.paused - p.w.now; wait > 0 {
		p.w.After(wait, func() { p.Awake(do) })
		return
	}
	do()
}

// tick is what a PoP does ten times a second.
func (p *PoP) tick() {
	if p.w.now >= p.paused {
		for i, x := range p.Workers {
			x.Tick(p.Now(), p.wall())
			p.finish(i)
		}
	}
	p.w.After(100*limit.Millisecond, p.tick)
}

// finish takes what a worker wants done after an event.
func (p *PoP) finish(n int) {
	x := p.Workers[n]
	for _, e := range x.Decided {
		p.decided = append(p.decided, p.waiting[e])
		delete(p.waiting, e)
	}
	wanted := x.Calls
	x.Decided, x.Calls = x.Decided[:0], nil
	for _, r := range p.decided {
		if r.Decided != nil {
			r.Decided(r)
		}
	}
	var room [4]*Call
	calls := room[:0]
	for i := range wanted {
		calls = append(calls, p.flight(n, &wanted[i]))
	}
	p.w.config.Observer.Happened(p)
	for _, r := range p.decided {
		p.end(n, r)
	}
	p.decided = p.decided[:0]
	for _, c := range calls {
		p.leave(c)
	}
}

// Request is a client's, at one PoP. It may be used again when it has ended; the functions must not make a
// request before they have returned.
type Request struct {
	// Fill makes q the request for rules with these inputs: it resets q first. The time, the secret and what
	// the PoP is are filled in after it. Required.
	Fill func(in *rule.Inputs, q *rule.Request)
	// Decided is called with the verdict, which is in Edge until the request has ended; nil: nobody asks.
	Decided func(r *Request)
	// Lasts is how long its stream lasts once it is admitted, in which it holds slots of concurrency limits; 0: it
	// ends at once. A request that is rejected does.
	Lasts limit.Micros
	// Response is the response when its stream ends, for rules that count responses; zero: none of the upstream.
	Response settle.Response
	// Ended is called when the request and its stream have ended; nil: nobody asks. Neither is called of a request
	// whose PoP restarts while it waits.
	Ended func(r *Request)
	// Edge is what the PoP makes of it.
	Edge edge.Request
}

// Request takes a client's request, now.
func (p *PoP) Request(r *Request) {
	if p.w.now < p.paused {
		p.Awake(func() { p.Request(r) })
		return
	}
	n := 0
	if len(p.Workers) > 1 {
		n = p.w.Rand.IntN(len(p.Workers))
	}
	x, q := p.Workers[n], &p.input
	in := x.Inputs()
	if in == nil {
		in = &noInputs
	}
	r.Fill(in, q)
	q.Now, q.PoP = p.wall(), &p.place
	x.Match(q)
	if x.Decide(p.Now(), &r.Edge) == edge.Wait {
		p.waiting[&r.Edge] = r
	} else {
		p.decided = append(p.decided, r)
	}
	p.finish(n)
}

// noInputs are those of no rules.
var noInputs rule.Inputs

// end ends a request: at once, or when its stream is over.
func (p *PoP) end(n int, r *Request) {
	if r.Lasts == 0 || r.Edge.Outcome != edge.Admit {
		p.leaves(n, r)
		return
	}
	life := p.Life
	p.w.After(r.Lasts, func() {
		if life != p.Life {
			r.end()
			return
		}
		p.leaves(n, r)
		p.finish(n)
	})
}

// leaves ends a request with its response.
func (p *PoP) leaves(n int, r *Request) {
	p.Workers[n].Settle(p.Now(), &r.Edge, r.Response)
	p.Workers[n].End(p.Now(), &r.Edge)
	r.end()
}

func (r *Request) end() {
	if r.Ended != nil {
		r.Ended(r)
	}
}
