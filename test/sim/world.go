package sim

import (
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
)

// Config is what a run starts from. The zero value of each field is the plain
// case: one PoP, no delay, nothing goes wrong.
type Config struct {
	Seed uint64
	PoPs int
	// Relays is how many replicas with a lease cache stand side by side between the
	// PoPs and the counters; 0: one replica, which has the counters itself.
	Relays int
	// Regions is among how many regions the relays are divided: the counters are those of
	// an aggregator then, which divides each limit among the regions. 0: all relays are of
	// one region, and the counters its store.
	Regions int
	// Shares are the weights of these regions, named region1 and so on, by which they have
	// shares of limits with scope: global and on_failure: local. Their replicas call the
	// aggregator by internal/upstream/client then, and Depth is 1. None: no region has a share.
	Shares rule.Regions
	// Depth is how many lease caches stand one above the other in each of them; 0: one.
	Depth int
	// Start is the region's clock at the beginning; 0 means noon of a day.
	Start limit.Micros
	// Net is what happens to messages. Far is that for those between a region and the
	// aggregator.
	Net, Far Net
	// MaxCounters bounds the region's counters; 0: a million, which no run reaches.
	MaxCounters int
	// Workers is how many workers each PoP has; 0: one. A call is numbered, and leaves
	// up to Hold later.
	Workers int
	Hold    limit.Micros
	// Alone is true where there is one PoP and no message is lost: see alone.go.
	Alone bool
	// RulesEvery is how often a PoP without requests asks for newer rules; 0: the default of the
	// product.
	RulesEvery limit.Micros
	// Grain is how far the goroutines of lease caches may be behind the events: with a
	// millisecond they wake up to so much too early, and time need not stop at every event.
	// 0: not at all.
	Grain limit.Micros
	// Steady takes chance out of the clocks, for scripts.
	Steady bool
	// Fault is what is broken on purpose.
	Fault Fault
	// Trace receives a line per message and decision; nil: none.
	Trace io.Writer
}

// World is one run. With relays it must be made and run in a bubble.
type World struct {
	Config
	now      limit.Micros // virtual time; every clock is this plus an offset
	rand     *rand.Rand
	events   events
	serial   uint64
	rules    ruleBook
	counters *counters
	crew     crew
	tiers    []*tier   // all, the one that has the counters first
	replicas []*tier   // those that PoPs call
	regions  []*region // that have shares
	pops     []*pop
	ref      *referee
	mail     mail
	// Calls counts the calls of PoPs and of lease caches for keys.
	Calls struct{ PoPs, Caches int64 }
}

// epochStart is the virtual time at which a run begins: later than 0, which the
// machines read as never.
const epochStart = limit.Second

// New builds a world with one set of rules. Close it.
func New(c Config, rules ...*Rule) *World {
	c.PoPs, c.Workers, c.Depth = max(c.PoPs, 1), max(c.Workers, 1), max(c.Depth, 1)
	if c.Start == 0 {
		c.Start = 20_000*limit.Day + 12*limit.Hour
	}
	if c.MaxCounters == 0 {
		c.MaxCounters = 1 << 20
	}
	w := &World{Config: c, now: epochStart, rand: rand.New(rand.NewPCG(c.Seed, 0x9e3779b97f4a7c15))}
	w.mail = mail{begun: time.Now(), wake: make(chan struct{}, 1), on: c.Relays > 0}
	w.rules = ruleBook{list: rules, shares: c.Shares, every: c.RulesEvery}
	w.rules.compile()
	w.ref = &referee{w: w, keys: map[counterKey]*account{}, past: map[*Rule]*Totals{}}
	w.counters = newCounters(w)
	top := newTier(w, "region", nil, "")
	for _, r := range c.Shares {
		w.regions = append(w.regions, newRegion(w, r.Name))
	}
	for i := range c.Relays {
		region := ""
		if c.Regions > 0 {
			region = "region" + itoa(i%c.Regions+1)
		}
		w.replicas = append(w.replicas, newRelay(w, "r"+itoa(i+1), region))
	}
	if c.Relays == 0 {
		w.replicas = []*tier{top}
	}
	for i := range c.PoPs {
		w.pops = append(w.pops, newPoP(w, i+1, w.replicas[i%len(w.replicas)]))
	}
	w.after(forgetEvery, w.forget)
	return w
}

// Close ends what still runs. Calls that still wait in a relay have time to reach their
// deadlines: virtual time stands still when the test has ended.
func (w *World) Close() {
	for _, t := range w.tiers {
		t.stop()
	}
	w.counters.stop()
	if w.mail.on {
		time.Sleep(longestCall)
	}
	w.crew.stop()
	w.pops, w.tiers, w.replicas, w.events, w.counters = nil, nil, nil, nil, nil // a bubble that has ended keeps the world
}

// longestCall is longer than the timeout of any call.
const longestCall = time.Minute

// Run lets so much time pass, and stops at the first broken promise.
func (w *World) Run(d limit.Micros) error {
	end := w.now + d
	for w.ref.err == nil {
		w.collect()
		if len(w.events) > 0 && w.events[0].at <= end {
			if w.pass(w.events[0].at) {
				w.events.pop().do()
			}
		} else if w.pass(end) {
			break
		}
	}
	w.ref.settle()
	return w.ref.err
}

// Now is the virtual time, for the event that runs and for goroutines of the product.
func (w *World) Now() limit.Micros {
	if w.mail.on {
		return max(w.now, w.bubbleTime())
	}
	return w.now
}

// wall is the time of day at PoPs and replicas.
func (w *World) wall() limit.Micros { return w.Now() - epochStart + w.Start }

// region is the tier that has the counters.
func (w *World) region() *tier { return w.tiers[0] }

// after does something later, in order of time and then of calling.
func (w *World) after(d limit.Micros, do func()) {
	w.serial++
	w.events.push(event{w.now + max(d, 0), w.serial, do})
}

func (w *World) chance(p float64) bool { return p > 0 && w.rand.Float64() < p }

func (w *World) tracef(format string, args ...any) {
	if w.Trace != nil {
		fmt.Fprintf(w.Trace, "%9.3f ", millis(w.now-epochStart))
		fmt.Fprintf(w.Trace, format+"\n", args...)
	}
}

func millis(d limit.Micros) float64 { return float64(d) / float64(limit.Millisecond) }
