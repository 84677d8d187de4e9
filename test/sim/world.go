package sim

import (
	"cmp"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/test/world"
)

// Net is what happens to messages between a tier and its granter.
type Net = world.Net

// Config is what a run starts from. The zero value of each field is the plain
// case: one PoP, no delay, nothing goes wrong.
type Config struct {
	Seed uint64
	PoPs int
	// Relays is how many replicas with a lease cache stand side by side between the
	// PoPs and the counters; 0: one replica, which has the counters itself.
	Relays int
	// Regions is among how many regions, named region1 and so on, the relays are divided: the counters are those of
	// an aggregator then, which divides each limit among the regions. 0: all relays are of
	// one region, and the counters its store.
	Regions int
	// Shares are the weights of these regions, by which they have
	// shares of limits with scope: global and on_failure: local. Their replicas call the
	// aggregator by internal/upstream/client then, and Depth is 1. None: no region has a share.
	Shares rule.Regions
	// Depth is how many lease caches stand one above the other in each of them; 0: one.
	Depth int
	// Start is the region's clock at the beginning; 0 means noon of a day.
	Start limit.Micros
	// Net is what happens to messages at the beginning. AggregatorNet is that for those between a region and the
	// aggregator.
	Net, AggregatorNet Net
	// MaxCounters bounds the region's counters; 0: a million, which no run reaches.
	MaxCounters int
	// Alone is true where there is one PoP and no message is lost: see alone.go.
	Alone bool
	// The others are those of [world.Config].
	Workers  int
	Hold     limit.Micros
	Steady   bool
	NoJitter bool
	// Fault is what is broken on purpose.
	Fault Fault
	// Trace receives a line per message and decision; nil: none.
	Trace io.Writer
}

// World is one run.
type World struct {
	Config
	world    *world.World
	rand     *rand.Rand
	rules    ruleBook
	counters *counters
	replicas []*world.Tier
	regions  []*region // that have shares
	pops     []*pop
	ref      *referee
	// Calls counts the calls of PoPs and of lease caches for keys.
	// Asks counts the wants of PoPs that ask for units.
	Calls struct{ PoPs, Caches, Asks int64 }
}

// epochStart is the virtual time at which a run begins.
const epochStart = limit.Second

// Play builds a world with one set of rules, in a bubble if it has relays, has f use it, and closes it.
func Play(c Config, f func(w *World) error, rules ...*Rule) error {
	w, wc := prepare(c, rules)
	return world.Play(wc, func(made *world.World) error {
		w.replicas = made.Replicas
		for _, p := range made.PoPs {
			w.pops = append(w.pops, w.pop(p))
		}
		err := f(w)
		w.pops, w.replicas = nil, nil // a bubble that has ended keeps the world
		return err
	})
}

// prepare makes what looks on, and states what it looks at.
func prepare(c Config, rules []*Rule) (*World, world.Config) {
	c.PoPs, c.Workers, c.Depth = max(c.PoPs, 1), max(c.Workers, 1), max(c.Depth, 1)
	c.Start = cmp.Or(c.Start, 20_000*limit.Day+12*limit.Hour)
	w := &World{Config: c, rules: ruleBook{list: rules, shares: c.Shares}}
	w.rules.compile()
	w.ref = &referee{w: w, keys: map[counterKey]*account{}}
	w.counters = &counters{w: w, debts: map[debtID]bool{}}
	wc := world.Config{
		Seed: c.Seed, Rules: w.rules.set, Start: c.Start, Net: c.Net, AggregatorNet: c.AggregatorNet, Workers: c.Workers, Hold: c.Hold, PagesLog2: pagesLog2,
		MaxCounters: c.MaxCounters, Replicas: c.Relays / max(c.Regions, 1), Depth: c.Depth,
		Plain: len(c.Shares) == 0, Steady: c.Steady, NoJitter: c.NoJitter, Observer: w,
	}
	for i := range c.Regions {
		wc.Regions = append(wc.Regions, "region"+itoa(i+1))
	}
	for i := range c.PoPs {
		p := world.PoPConfig{Name: "h" + itoa(i+1)}
		if c.Regions > 0 {
			p.Region = wc.Regions[i%c.Regions]
		}
		wc.PoPs = append(wc.PoPs, p)
	}
	return w, wc
}

// Begins takes the world that is being made.
func (w *World) Begins(made *world.World) { w.world, w.rand = made, made.Rand }

// pagesLog2 is the size of a PoP's table: the smallest that a configuration allows.
const pagesLog2 = 4

// Run lets so much time pass, and stops at the first broken promise.
func (w *World) Run(d limit.Micros) error {
	w.world.Run(d)
	w.ref.settle()
	return w.ref.err
}

// now is the virtual time, for the event that runs.
func (w *World) now() limit.Micros { return w.world.Now() - w.Start + epochStart }

// Now is the virtual time, also for goroutines of the product.
func (w *World) Now() limit.Micros { return w.world.Clock() - w.Start + epochStart }

// region is the tier that has the counters.
func (w *World) region() *world.Tier { return w.world.Tiers[0] }

// after does something later, in order of time and then of calling.
func (w *World) after(d limit.Micros, do func()) { w.world.After(d, do) }

func (w *World) chance(p float64) bool { return w.world.Chance(p) }

func (w *World) tracef(format string, args ...any) {
	if w.Trace != nil {
		fmt.Fprintf(w.Trace, "%9.3f ", millis(w.now()-epochStart))
		fmt.Fprintf(w.Trace, format+"\n", args...)
	}
}

// trace writes what a call says of each key.
func (w *World) trace(from, way string, items []item) {
	for i := range items {
		if it := &items[i]; w.Trace != nil {
			w.tracef("%s %s %v %+v %+v", from, way, it.key, it.want, it.grant)
		}
	}
}

func millis(d limit.Micros) float64 { return float64(d) / float64(limit.Millisecond) }

func itoa[T ~int | ~int64 | ~uint32](n T) string { return strconv.FormatInt(int64(n), 10) }
