package regions

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Played is a script that has been played.
type Played struct {
	Script  *Script
	begin   time.Time
	results []*drive.Result // of each load
	acts    []time.Duration // when each event began
	marks   map[time.Duration]Mark
	first   Mark   // before the play
	watched []Mark // in turn
}

// Mark is what was counted up to a time.
type Mark struct {
	At       time.Duration      // since the script began
	Degraded float64            // requests, at all PoPs
	Waited   float64            // requests that waited for an aggregator
	Asks     map[string]float64 // by region
	Alone    map[alone]float64  // requests that PoPs admitted by themselves
}

// alone names what PoPs of a region admit by themselves of a rule.
type alone struct{ region, rule string }

// watchEvery is how often it is counted what was degraded.
const watchEvery = 500 * time.Millisecond

// playHeader has a value of its own in each play, and rules have it for their key. So a play begins with
// counters that nobody has used and without leases of the plays before.
const playHeader = "x-play"

// Play plays a script, and leaves the world whole.
func (w *World) Play(s *Script) *Played {
	w.t.Helper()
	p := &Played{Script: s, results: make([]*drive.Result, len(s.Loads)), acts: make([]time.Duration, len(s.Events)), marks: map[time.Duration]Mark{}}
	w.plays++
	w.play = fmt.Sprintf("play-%03d", w.plays)
	w.SetTrip(s.Trip)
	w.quiet()
	w.apply(s.Document)
	w.awaitRules()
	p.first = p.mark(w, false)
	proc.AwaitDay()
	p.begin = time.Now().Add(100 * time.Millisecond).Truncate(s.Align).Add(s.Align)
	loads := w.offer(p)
	p.follow(w)
	if err := loads(); err != nil {
		w.t.Fatalf("%s: %v", s.Name, err)
	}
	time.Sleep(settle) // what PoPs have counted shows at their next tick
	last := p.mark(w, true)
	last.At = min(last.At, s.Last())
	p.marks[s.Last()] = last
	w.mend()
	return p
}

// settle is enough for a tick of a PoP, 0.1 s, on a machine that is busy.
const settle = time.Second

// allowance is what a request may take longer than its rule's timeout before it counts as slower: the
// client of a test and the Envoys are two of some fifty programs on two cores, and the client takes the time
// when it gets to read.
const allowance = 100 * time.Millisecond

// offer starts the loads, and returns what waits for their end.
func (w *World) offer(p *Played) (wait func() error) {
	ctx, cancel := context.WithCancel(w.t.Context())
	var all sync.WaitGroup
	errs := make([]error, len(p.Script.Loads))
	for i, l := range p.Script.Loads {
		all.Go(func() {
			time.Sleep(time.Until(p.begin.Add(l.From)))
			p.results[i], errs[i] = drive.Run(ctx, drive.Load{
				Addrs: w.Region(l.Region).Addrs(), Request: drive.Get("/"+l.Rule, playHeader, w.play),
				Until: p.begin.Add(l.To), PerSecond: l.PerSecond,
			})
		})
	}
	return func() error {
		defer cancel()
		all.Wait()
		for _, err := range errs {
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// follow does what is to be done at its time, and counts at the times that figures name.
func (p *Played) follow(w *World) {
	type step struct {
		at time.Duration
		do func()
	}
	var steps []step
	for _, at := range p.Script.moments() {
		steps = append(steps, step{at, func() { p.marks[at] = p.mark(w, true) }})
	}
	for i, e := range p.Script.Events {
		steps = append(steps, step{e.At, func() {
			p.acts[i] = time.Since(p.begin)
			e.act(w)
		}})
	}
	slices.SortStableFunc(steps, func(a, b step) int { return int(a.at - b.at) })
	next := func(at time.Duration) {
		for time.Until(p.begin.Add(at)) > watchEvery {
			time.Sleep(watchEvery)
			p.watched = append(p.watched, p.mark(w, false))
		}
		time.Sleep(time.Until(p.begin.Add(at)))
	}
	for _, s := range steps {
		next(s.at)
		s.do()
	}
	next(p.Script.Last())
	p.watched = append(p.watched, p.mark(w, false))
}

// lastAt is when the last action of a time began.
func (p *Played) lastAt(at time.Duration) (began time.Duration) {
	for i, e := range p.Script.Events {
		if e.At == at {
			began = p.acts[i]
		}
	}
	return began
}

// moments are the times at which figures begin or end, but for the end of all loads.
func (s *Script) moments() (all []time.Duration) {
	for _, e := range slices.Concat(s.Always, s.Expect) {
		all = append(all, e.From)
		if to := e.To; to > 0 && to < s.Last() {
			all = append(all, to)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// mark reads what the PoPs, the aggregators, and perhaps the replicas have counted of the
// script's rules. An aggregator that is down has counted nothing.
func (p *Played) mark(w *World, replicas bool) Mark {
	m := Mark{At: time.Since(p.begin), Asks: map[string]float64{}, Alone: map[alone]float64{}}
	for _, r := range w.Regions {
		for i := 0; replicas && i < len(r.Replicas); i++ {
			m.Waited += r.Replicas[i].Metrics().Sum("weir_aggregator_waited_total")
		}
		for _, pop := range r.PoPs {
			for name, n := range pop.Stats("wasmcustom.weir") {
				rule := p.Script.ruleOf(name)
				byPoP := strings.HasSuffix(name, ".reason.on_failure") || strings.HasSuffix(name, ".reason.local_share")
				if rule == "" || !byPoP {
					continue
				}
				m.Degraded += float64(n)
				if strings.Contains(name, ".decision.allowed.") {
					m.Alone[alone{r.Name, rule}] += float64(n)
				}
			}
		}
	}
	for _, a := range w.Aggregators {
		metrics := w.counted(a)
		for _, name := range Names {
			m.Asks[name] += metrics.Sum("weir_region_wants_total", fmt.Sprintf("region=%q", name))
		}
	}
	return m
}

// ruleOf is the rule of the script that a stat of a PoP is about; "" if there is none.
func (s *Script) ruleOf(stat string) string {
	for _, r := range s.Rules {
		if strings.Contains(stat+".", ".rule."+r.Name+".") {
			return r.Name
		}
	}
	return ""
}
