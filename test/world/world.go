// Package world runs Weir's tiers in one process under virtual time: for tests, and for programs that
// show what rules do.
//
// The tiers are the product: a PoP is [edge.Worker] over shared memory, a tier is [service.Handler] over
// [memory.Store] or over [leasecache.Store], the lease cache of a replica, and regions call an aggregator
// as internal/daemon has them do. What is simulated is everything round the tiers: clocks, network,
// restarts, clients.
//
// Every holder of leases has a [Link] to its granter, and every message is a call on a link:
//
//	requests ─▶ PoP ─link─▶ tier ─link─▶ ... ─link─▶ the tier that has the counters
//
//	world.go, play.go  what a world is made of, and how to run it
//	events.go          the order of events, and goroutines of the product in step with them
//	pop.go, shared.go  a PoP, its requests, and the memory that its workers share
//	flight.go          the calls of a PoP: the bytes of the wire
//	link.go            a call on its way up, its answer down: delay, loss, copies
//	tier.go            what answers a call
//	counters.go        the counters of the topmost tier
//	region.go          the counters of a region below an aggregator, and its reserve
//	uplink.go          the calls of tiers: of a store, or the bytes of the wire
//	observer.go        who sees what crosses a border, and may break it
//
// Without goroutines of the product, with one region and no replicas, a run is a function of its [Config]
// and of what is asked of it. With them it runs in a bubble of testing/synctest, see [Play], and one event
// is over before the next begins. What happens at one instant is put in order, but a replica has random
// numbers of its own (jitter, and which key it evicts from a full cache), so that without NoJitter a seed plays nearly
// the same run again, not the same.
package world

import (
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/internal/upstream"
)

// Config is what a run starts from. The zero value of each field is the plain case: nothing takes time,
// nothing goes wrong. Rules, PoPs, Start, Workers, PagesLog2, Depth and Observer are required.
type Config struct {
	Seed uint64
	// Rules are in force at all tiers. The regions with shares that they name are those of Regions, or are not there.
	Rules *rule.Set
	PoPs  []PoPConfig
	// Regions are the names of the regions. Fewer than two: there is one, whose tier counts the rules of all
	// scopes. Else each has counters for its own rules, and an aggregator has those for rules with scope: global.
	Regions []string
	// Start is the time of day at the beginning, in µs since 1970.
	Start limit.Micros
	// Net is what happens to messages between PoPs and regions. AggregatorNet is that for those between a region and the
	// aggregator.
	Net, AggregatorNet Net
	// Workers is how many workers each PoP has. A call is numbered, and leaves up to Hold later.
	Workers int
	Hold    limit.Micros
	// PagesLog2 is the size of a PoP's table: a power of two, of pages of up to 32 keys each; 4 to 15.
	PagesLog2 int
	// MaxCounters bounds the counters of each store, and the keys of each lease cache; 0: a million, and 65,536.
	MaxCounters int
	// Replicas is how many replicas with a lease cache each region has, over its store; 0: none, a region has its
	// counters itself, and below an aggregator one. Depth is how many lease caches stand one above the other in
	// each of them.
	Replicas, Depth int
	// Plain has replicas call the store of the aggregator in place of its service, for rules of all scopes: without
	// shares.
	Plain bool
	// Steady takes chance out of the clocks: all PoPs tick at the same time.
	Steady bool
	// NoJitter takes chance out of the pauses of replicas, and Play runs their goroutines one at a time: a seed plays the
	// same run again.
	NoJitter bool
	// Observer sees what happens.
	Observer Observer
}

// concurrent reports whether goroutines of the product take part.
func (c *Config) concurrent() bool { return c.Replicas > 0 || c.divided() }

// divided reports whether there is an aggregator, which divides limits among regions.
func (c *Config) divided() bool { return len(c.Regions) > 1 }

// maxBytes bounds the memory of each store.
const maxBytes = 1 << 30

// World is one run. It is for one goroutine. [Play] makes it.
type World struct {
	PoPs               []*PoP
	Tiers              []*Tier   // all, the one that has the counters first
	Replicas           []*Tier   // those that PoPs call
	Regions            []*Region // that have counters of their own
	Net, AggregatorNet Net       // may change while it runs
	Rand               *rand.Rand

	config   Config
	now      limit.Micros // virtual time; every clock is this plus an offset
	shown    atomic.Int64 // now, for goroutines of the product
	stopped  bool
	events   events
	serial   uint64
	rules    *rule.Set        // in force at tiers
	bundled  *rule.Set        // the same, as PoPs begin with it
	windows  []reserve.Window // of limits of which regions have a share
	counters *counters
	crew     crew
	mail     mail
}

// epochStart is the virtual time at which a run begins: later than 0, which the
// machines read as never.
const epochStart = limit.Second

func newWorld(c Config) *World {
	if c.divided() {
		c.Replicas = max(c.Replicas, 1)
	}
	w := &World{config: c, Net: c.Net, AggregatorNet: c.AggregatorNet, Rand: rand.New(rand.NewPCG(c.Seed, 0x9e3779b97f4a7c15))}
	w.setNow(epochStart)
	c.Observer.Begins(w)
	w.mail = mail{begun: time.Now(), wake: make(chan struct{}, 1), on: c.concurrent()}
	w.use(c.Rules)
	w.counters = newCounters(w)
	top := newTier(w, "region", nil, "")
	if w.addRegions(); !c.concurrent() {
		w.Replicas = []*Tier{top}
	}
	placed := map[string]int{}
	for _, p := range c.PoPs {
		of := w.replicasOf(p.Region)
		w.PoPs = append(w.PoPs, newPoP(w, p, of[placed[p.Region]%len(of)]))
		placed[p.Region]++
	}
	return w
}

// must ends a run that cannot be made.
func must(err error) {
	if err != nil {
		panic(err)
	}
}

// addRegions makes the regions and their replicas, of each region the first ones first.
func (w *World) addRegions() {
	names := w.config.Regions
	if !w.config.divided() {
		names = []string{""}
	} else if !w.config.Plain {
		for _, name := range names {
			w.Regions = append(w.Regions, newRegion(w, name))
		}
	}
	for i := range w.config.Replicas {
		for j, name := range names {
			w.Replicas = append(w.Replicas, newReplica(w, fmt.Sprint("r", i*len(names)+j+1), name))
		}
	}
}

// replicasOf are those that the PoPs of a region call.
func (w *World) replicasOf(region string) (of []*Tier) {
	for _, t := range w.Replicas {
		if t.Region == region || !w.config.divided() {
			of = append(of, t)
		}
	}
	return of
}

// use takes rules, for the tiers and PoPs that begin from now on.
func (w *World) use(set *rule.Set) {
	bundled, err := read.JSON(set.Encode())
	must(err)
	w.rules, w.bundled, w.windows = set, bundled, upstream.WindowsOf(set)
}

// SetRules puts other rules into force at all tiers; PoPs fetch them. Sets are ordered by their revision,
// see [rule.Set.Dated].
func (w *World) SetRules(set *rule.Set) {
	w.use(set)
	if w.counters.divided != nil {
		w.counters.divided.SetRegions(set.Regions())
	}
	for _, t := range w.Tiers {
		must(t.Service.SetRules(set))
	}
}

// close ends what still runs. Calls that still wait in a replica have time to reach their
// deadlines: virtual time stands still when the bubble has ended.
func (w *World) close() {
	for _, t := range w.Tiers {
		t.stop()
	}
	w.counters.stop()
	if w.mail.on {
		time.Sleep(longestCall)
	}
	w.crew.stop()
	w.PoPs, w.Tiers, w.Replicas, w.events, w.counters = nil, nil, nil, nil, nil // a bubble that has ended keeps the world
}

// longestCall is longer than the timeout of any call.
const longestCall = time.Minute

// Run lets so much time pass, with all that happens in it.
func (w *World) Run(d limit.Micros) {
	end := w.now + d
	for !w.stopped {
		w.collect()
		if len(w.events) > 0 && w.events[0].at <= end {
			if w.pass(w.events[0].at) {
				w.events.pop().do()
			}
		} else if w.pass(end) {
			break
		}
	}
}

// Stop ends the run that is under way, and those to come.
func (w *World) Stop() { w.stopped = true }

// Now is the time of day at PoPs and regions, in µs since 1970.
func (w *World) Now() limit.Micros { return w.now - epochStart + w.config.Start }

// virtual is the virtual time, for the event that runs and for goroutines of the product.
func (w *World) virtual() limit.Micros {
	if w.mail.on {
		return max(limit.Micros(w.shown.Load()), w.bubbleTime())
	}
	return w.now
}

// setNow lets time pass until then, if it is later than now.
func (w *World) setNow(then limit.Micros) {
	w.now = max(w.now, then)
	w.shown.Store(int64(w.now))
}

// Clock is Now, also for goroutines of the product.
func (w *World) Clock() limit.Micros { return w.virtual() - epochStart + w.config.Start }

// After does something later, in order of time and then of calling.
func (w *World) After(d limit.Micros, do func()) {
	w.serial++
	w.events.push(event{w.now + max(d, 0), w.serial, do})
}

// jitter is that of the product's pauses.
func (w *World) jitter() func() lease.Percent {
	if w.config.NoJitter {
		return func() lease.Percent { return 100 }
	}
	return nil
}

// Chance is true with this probability.
func (w *World) Chance(p float64) bool { return p > 0 && w.Rand.Float64() < p }
