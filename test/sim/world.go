// Package sim runs holders, tiers in the middle and one granter in one process
// under virtual time, and checks what Weir promises after every step.
//
// The machines are those of the product (internal/lease, internal/limit); what
// is simulated is everything round them: clocks, network, restarts, clients. A
// run is a function of its [Config] and seed. The checks know nothing of how a
// decision was made: a [referee] follows every unit from the grant to the request
// that it admitted.
package sim

import (
	"container/heap"
	"fmt"
	"io"
	"math/rand/v2"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// Config is what a run starts from. The zero value of each field is the plain
// case: one holder, no delay, nothing goes wrong.
type Config struct {
	Seed    uint64
	Holders int
	// Relays is how many tiers in the middle stand side by side between the
	// granter and the holders, who are spread over them; 0: none.
	Relays int
	// Start is the granter's clock at the beginning; 0 means noon of a day.
	Start limit.Micros
	Net   Net
	// Learning makes a granter that lost its state hear what the holders remember of it.
	Learning bool
	// MaxSlots bounds a holder's table, MaxCounters the granter's; 0: no bound.
	MaxSlots    int
	MaxCounters int
	// Workers is how many workers each holder has; 0: one. A call is numbered, and leaves
	// up to Hold later, but for the first ms.
	Workers int
	Hold    limit.Micros
	// Liars is how many of the holders lie, from the first on: see lies.go.
	Liars int
	// Alone says that there is one holder, whom no message is lost of: see alone.go.
	Alone bool
	// Steady takes the jitter out, for scripts.
	Steady bool
	// Fault is what is broken on purpose.
	Fault Fault
	// Trace receives a line per message and decision; nil: none.
	Trace io.Writer
}

// Rule is a limit as all tiers know it.
type Rule struct {
	Name      string
	Limit     *limit.Limit
	Terms     lease.Terms
	OnFailure OnFailure
}

// OnFailure is what becomes of a request that nobody decides in time.
type OnFailure uint8

// The policies.
const (
	Allow OnFailure = iota
	Deny
	Local
)

// counterKey names a counter: rule, shape of its limit, key.
type counterKey struct {
	rule  string
	shape uint64
	key   string
}

// World is one run.
type World struct {
	Config
	Now     limit.Micros // virtual time; every clock is this plus an offset
	rand    *rand.Rand
	events  events
	serial  uint64
	rules   []*Rule
	granter *granter
	relays  []*relay
	holders []*holder
	ref     *referee
}

// epochStart is the virtual time at which a run begins: later than 0, which the
// machines read as never.
const epochStart = limit.Second

// New builds a world with one set of rules.
func New(c Config, rules ...*Rule) *World {
	c.Holders = max(c.Holders, 1)
	if c.Start == 0 {
		c.Start = 20_000*limit.Day + 12*limit.Hour
	}
	w := &World{Config: c, Now: epochStart, rules: rules, rand: rand.New(rand.NewPCG(c.Seed, 0x9e3779b97f4a7c15))}
	w.ref = newReferee(w)
	w.granter = newGranter(w)
	for i := range c.Relays {
		w.relays = append(w.relays, newRelay(w, i+1))
	}
	for i := range c.Holders {
		var above tier = w.granter
		if c.Relays > 0 {
			above = w.relays[i%c.Relays]
		}
		w.holders = append(w.holders, newHolder(w, i+1, above))
	}
	return w
}

// Err is the first broken promise, nil if all were kept.
func (w *World) Err() error { return w.ref.err }

// Run lets so much time pass, and stops at the first broken promise.
func (w *World) Run(d limit.Micros) error {
	end := w.Now + d
	for w.ref.err == nil && len(w.events) > 0 && w.events[0].at <= end {
		e := heap.Pop(&w.events).(event)
		w.Now = e.at
		e.do()
	}
	if w.ref.err == nil {
		w.Now = end
		w.ref.settleLogs()
		w.ref.settleDebts()
	}
	return w.ref.err
}

// after does something later, in order of time and then of calling.
func (w *World) after(d limit.Micros, do func()) {
	w.serial++
	heap.Push(&w.events, event{w.Now + max(d, 0), w.serial, do})
}

func (w *World) rule(name string) *Rule {
	for _, r := range w.rules {
		if r.Name == name {
			return r
		}
	}
	return nil
}

func (w *World) jitter() lease.Millis {
	if w.Steady {
		return 100
	}
	return lease.Millis(90 + w.rand.IntN(21))
}

func (w *World) chance(p float64) bool { return p > 0 && w.rand.Float64() < p }

func (w *World) tracef(format string, args ...any) {
	if w.Trace != nil {
		fmt.Fprintf(w.Trace, "%9.3f ", float64(w.Now-epochStart)/float64(limit.Millisecond))
		fmt.Fprintf(w.Trace, format+"\n", args...)
	}
}

func (k counterKey) String() string { return k.rule + "/" + k.key }

type event struct {
	at     limit.Micros
	serial uint64
	do     func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].serial < q[j].serial
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(e any)   { *q = append(*q, e.(event)) }
func (q *events) Pop() any {
	old := *q
	e := old[len(old)-1]
	old[len(old)-1] = event{}
	*q = old[:len(old)-1]
	return e
}
