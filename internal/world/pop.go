package world

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// PoPConfig is a PoP as rules and programs see it.
type PoPConfig struct {
	Name   string
	Region string // with an aggregator it is one of its regions; else any, or empty
	Labels map[string]string
}

// PoP is an Envoy: workers, and what they share.
type PoP struct {
	// Link is its way to its region.
	Link *Link

	w      *World
	name   string
	place  rule.PoP
	offset limit.Micros // its clock, from virtual time
	ticks  func()       // tick, as an event
	life   uint64       // counts restarts

	shared  *shared
	workers []*edge.Worker
	input   rule.Request
	waiting map[*edge.Request]*Request
	decided []*Request
}

func newPoP(w *World, c PoPConfig, above *tier) *PoP {
	p := &PoP{w: w, name: c.Name, place: rule.PoP{Region: c.Region, Labels: c.Labels}}
	p.Link = newLink(w, &w.config.Net, p.name, above)
	first := limit.Micros(0)
	if !w.config.Steady {
		p.offset = limit.Micros(w.rand.Int64N(int64(limit.Second)))
		first = limit.Micros(w.rand.Int64N(int64(100 * limit.Millisecond)))
	}
	p.start()
	p.ticks = p.tick
	w.After(first, p.ticks)
	return p
}

// start begins a life: a new process with a new identity, which remembers nothing.
func (p *PoP) start() {
	w := p.w
	p.life++
	p.shared, p.waiting = &shared{}, map[*edge.Request]*Request{}
	cfg := rulebook.Config{
		RegionCluster: "region", PoP: p.name, Region: p.place.Region, Labels: p.place.Labels, Rules: w.bundled,
		RulesEvery: lease.Millis(w.config.RulesEvery / limit.Millisecond), PagesLog2: w.config.PagesLog2, Headers: true, Hash: 1,
	}
	seed := table.Seed{w.rand.Uint64(), w.rand.Uint64()}
	id := w.rand.Uint64()
	p.workers = p.workers[:0]
	for range w.config.Workers {
		entropy := [6]uint64{id, id, seed[0], seed[1], w.rand.Uint64(), w.rand.Uint64()}
		p.workers = append(p.workers, edge.New(cfg, p.shared, entropy, p.now(), p.wall()))
	}
	for i := range p.workers {
		p.finish(i)
	}
}

// Restart makes the PoP begin anew. Nobody waits any more.
func (p *PoP) Restart() { p.start() }

func (p *PoP) now() lease.Millis { return lease.Millis((p.w.now + p.offset) / limit.Millisecond) }

// wall is the time of day at its region.
func (p *PoP) wall() limit.Micros { return p.Link.above.wall() }

// tick is what a PoP does ten times a second.
func (p *PoP) tick() {
	for i, x := range p.workers {
		x.Tick(p.now(), p.wall())
		p.finish(i)
	}
	p.w.After(100*limit.Millisecond, p.ticks)
}

// finish takes what a worker wants done after an event.
func (p *PoP) finish(n int) {
	x := p.workers[n]
	for _, e := range x.Decided {
		p.decided = append(p.decided, p.waiting[e])
		delete(p.waiting, e)
	}
	calls := x.Calls
	x.Decided, x.Calls = x.Decided[:0], nil
	for _, r := range p.decided {
		if r.Decided != nil {
			r.Decided(r)
		}
	}
	for _, r := range p.decided {
		p.end(n, r)
	}
	p.decided = p.decided[:0]
	for i := range calls {
		p.flight(n, &calls[i]).leave()
	}
}
