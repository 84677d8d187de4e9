// Package replay has the requests of an access log decided by rules, each at the time of its line: by the tiers that decide in
// operation, of one PoP in one region, see package world. And it finds limits that most keys of a log never reach.
//
//	log.go      lines, in the order of their time; unknown.go: the rules that apply to their requests
//	replay.go   the run; report.go: what came of it
//	suggest.go  limits for the keys of a log; peak.go: the most that a key spends in a period
//	sample.go   memory of keys that is bounded
package replay

import (
	"io"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/world"
	"github.com/weirlimit/weir/wasmfilter/edge"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/topkeys"
)

// Config is how a log is replayed.
type Config struct {
	Rules  *rule.Set // required
	Region string    // of the PoP; empty: unknown
	// MaxKeys bounds the keys that the region has counters for, some 250 bytes each, and those that a report counts, of all
	// rules together; 0: a million.
	MaxKeys int
}

const (
	// quiet is after how long without requests time is skipped: the longest lease has ended by then.
	quiet = 12 * limit.Minute
	// tablePages is the size of the PoP's table, as a power of two: it has places for 131,072 keys. A full page evicts what can be
	// asked for again. To look through a table of the default size takes 15 s for each day of a log.
	tablePages = 12
)

// player is a run.
type player struct {
	Config
	err    error
	world  *world.World
	pop    *world.PoP
	worker *edge.Worker // its only one
	spare  []*flying
	report Report
	keys   sample[bool]      // whether it was denied
	top    []*topkeys.Sketch // by rule; nil: nothing was denied
}

// flying is a request that is decided, and its verdict.
type flying struct {
	world.Request
	entry             *entry
	denied, undecided bool
	by                string // the rule that denies it
}

// Run replays a log, which may be compressed by gzip.
func Run(log io.Reader, c Config) (*Report, error) {
	r := reader{decider: newDecider(c.Rules, c.Region)}
	p := &player{Config: c}
	p.begin()
	err := r.each(log, func(e *entry) {
		if p.world == nil && p.err == nil {
			p.err = p.start(r.with, e.at)
		}
		if p.err == nil {
			p.play(e)
		}
	})
	if err == nil {
		err = p.err
	}
	if err != nil {
		return nil, err
	}
	defer p.world.Close()
	p.world.Run(limit.Second) // what is still to come of rules in shadow
	p.finish(&r)
	return &p.report, nil
}

// start makes the world, some time before the first request.
func (p *player) start(set *rule.Set, first limit.Micros) (err error) {
	p.world, err = world.New(world.Config{
		Rules: set, Secret: new(rule.Secret), PoPs: []world.PoPConfig{{Name: "pop", Region: p.Region}}, Start: first - limit.Second,
		Steady: true, PagesLog2: tablePages, MaxCounters: p.MaxKeys,
	})
	if err != nil {
		return err
	}
	p.pop = p.world.PoP("pop")
	p.worker = p.pop.Workers[0]
	p.worker.WouldDeny = func(of *rulebook.Policy, key []byte) {
		i, _ := set.Find(of.Rule.Name)
		p.deny(i, hashOf(i, key), key)
	}
	return nil
}

// play lets time pass until a request, and has it decided.
func (p *player) play(e *entry) {
	wait := max(e.at-p.world.Now(), 0)
	p.world.Run(min(wait, quiet))
	if wait > quiet {
		p.world.Skip(wait - quiet)
		p.world.Run(0)
	}
	f := p.fresh()
	f.entry, f.Lasts = e, e.lasts
	p.pop.Request(&f.Request)
	p.world.Run(0) // until the region has answered
	p.count(f)
}

// fresh is a request that has ended, or a new one.
func (p *player) fresh() *flying {
	if n := len(p.spare); n > 0 {
		f := p.spare[n-1]
		p.spare = p.spare[:n-1]
		return f
	}
	f := new(flying)
	f.Fill = func(_ *rule.Inputs, q *rule.Request) { *q = f.entry.request }
	f.Decided = func(*world.Request) {
		f.denied, f.undecided, f.by = f.Edge.Outcome == edge.Deny, f.Edge.Degraded, ""
		if q := f.Edge.Governing(rule.AnyHeaders); f.denied && q != nil {
			f.by = q.Rule.Name
		}
	}
	f.Ended = func(*world.Request) { p.spare = append(p.spare, f) }
	return f
}
