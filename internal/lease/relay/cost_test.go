package relay

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/granter"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// chain is one holder, its granters and what they count, with no time between them:
// what one exact limiter would decide, the chain has to.
type chain struct {
	t       rapid.TB
	l       *limit.Limit
	terms   lease.Terms
	now     limit.Micros
	account holder.State
	relays  []Relay // from the holder up
	counter granter.Counter

	spent []spending // what was admitted: the exact twin
}

// spending is units that were admitted at a time.
type spending struct {
	at    limit.Micros
	units int64
}

func newChain(t rapid.TB, l *limit.Limit, relays int) *chain {
	terms := lease.NewTerms(l, lease.Leased, 0, 0, 0)
	return &chain{t: t, l: l, terms: terms, now: window + 7*limit.Second, relays: make([]Relay, relays)}
}

func (c *chain) ms() lease.Millis {
	return lease.Millis((c.now - window + 1_000_000) / limit.Millisecond)
}

// request decides a request, and holds the decision against the twin's.
func (c *chain) request(cost int64) bool {
	admitted := c.decide(cost)
	switch {
	case admitted:
		c.spent = append(c.spent, spending{c.now, cost})
	case c.fits(cost):
		c.t.Fatalf("a request of %d is rejected although an exact limiter has room; admitted %v; account %+v, counter %+v", cost, c.spent, c.account, c.counter)
	}
	return admitted
}

// soon is after how long the chain has noticed what came back to the limit by itself.
// Windows flip when they flip, give or take the milliseconds in which times are stated. A
// log charges units that are spent at once at the end of the lease that they came with.
func (c *chain) soon() (d limit.Micros) {
	switch c.l.Spec().Algorithm {
	case limit.FixedWindow:
		return 3 * limit.Millisecond
	case limit.SlidingLog:
		d = 10 * limit.Second
	}
	return d + lease.LongestAskAfter + limit.Micros(len(c.relays)+2)*limit.Micros(c.terms.Interval)*limit.Millisecond
}

// fits reports whether one exact limiter that has admitted the same would admit a
// request of so many units, without what came back to it so lately that the chain may
// not have noticed it. Where units trickle back fast, a tier leaves what does within a few
// paces for the next ask.
func (c *chain) fits(cost int64) bool {
	cost += c.terms.Ample * int64(len(c.relays)+1)
	return c.fitsAt(cost, c.now) && c.fitsAt(cost, c.now-c.soon())
}

func (c *chain) fitsAt(cost int64, at limit.Micros) bool {
	var twin limit.State
	for _, s := range c.spent {
		twin = c.l.Charge(twin, min(s.at, at), s.units)
	}
	return c.l.Peek(twin, at, cost).RetryAfter == 0
}

// decide is what a holder does with a request: while it may ask, it does.
func (c *chain) decide(cost int64) bool {
	for rounds := 0; ; rounds++ {
		d := c.account.Take(&c.terms, c.ms(), cost)
		if d.Ask != holder.NoAsk {
			w := c.account.Ask(&c.terms, c.ms(), 0, 0, d.Ask)
			g := c.ask(0, w)
			c.giveBack(0, c.account.Apply(&c.terms, c.ms(), c.ms(), w, g, g.Granted, 100))
		}
		if d.Verdict != holder.Wait {
			return d.Verdict == holder.Admit
		}
		if rounds > 4 {
			c.t.Fatalf("a request of %d is asked for again and again", cost)
		}
		w := c.account.Ask(&c.terms, c.ms(), cost, cost, holder.NoAsk)
		g := c.ask(0, w)
		spare := g.Granted
		if g.Granted >= cost {
			spare -= cost
		}
		c.giveBack(0, c.account.Apply(&c.terms, c.ms(), c.ms(), w, g, spare, 100))
		if g.Granted >= cost {
			return true
		}
	}
}

// ask asks tier i, counted from the holder up.
func (c *chain) ask(i int, w lease.Want) lease.Grant {
	if i == len(c.relays) {
		return c.counter.Acquire(c.l, &c.terms, c.now, w)
	}
	n := &c.relays[i]
	for {
		g, verdict, back := n.Acquire(&c.terms, c.ms(), w)
		w = lease.Want{Need: w.Need, Waiting: w.Waiting, Want: w.Want, Next: w.Next && w.Want > 0}
		c.giveBack(i+1, back)
		behind := holder.NoAsk
		if verdict != holder.Wait {
			if behind = n.Prefetch(&c.terms, c.ms()); behind == holder.NoAsk {
				return g
			}
		}
		var queue []lease.Want
		if verdict == holder.Wait {
			queue = []lease.Want{w}
		}
		grants := make([]lease.Grant, len(queue))
		up := n.Ask(&c.terms, c.ms(), queue, behind)
		c.giveBack(i+1, n.Apply(&c.terms, c.ms(), c.ms(), up, c.ask(i+1, up), 100, queue, grants))
		if verdict != holder.Wait {
			return g
		}
		if grants[0].Status == lease.OK || !n.Retries(&c.terms, c.ms(), w) {
			return grants[0]
		}
	}
}

// giveBack returns units to tier i, and passes the reply to the relay below it.
func (c *chain) giveBack(i int, p holder.Part) {
	if p.Units == 0 {
		return
	}
	g := c.ask(i, lease.Want{Unused: p.Units, Lease: p.Lease})
	if i > 0 {
		c.relays[i-1].DebtReplied(&c.terms, c.ms(), g)
	}
}

// pass lets time pass. Holders look through their idle keys at leisure: within half a
// minute what has lapsed is reported.
func (c *chain) pass(d lease.Millis) {
	for end := c.now + limit.Micros(d)*limit.Millisecond; c.now < end; {
		c.now = min(end, c.now+30*limit.Second)
		if d >= 12_000 {
			c.report()
		}
	}
}

// report sends what an idle holder has to report, and then the relays do.
func (c *chain) report() {
	if w, ok := c.account.Report(&c.terms, c.ms()); ok {
		c.account.Apply(&c.terms, c.ms(), c.ms(), w, c.ask(0, w), 0, 100)
	}
	for i := range c.relays {
		n := &c.relays[i]
		if w, ok := n.Holder.Report(&c.terms, c.ms()); ok {
			n.Holder.Apply(&c.terms, c.ms(), c.ms(), w, c.ask(i+1, w), 0, 100)
		}
	}
}

// A single holder whose requests cost more than its lease is denied nothing that the
// limit has: what it holds counts.
func TestCostsAboveTheLease(t *testing.T) {
	many := func(n int, cost int64) []int64 { return slices.Repeat([]int64{cost}, n) }
	for _, row := range []struct {
		limit int64
		costs []int64
		then  []int64 // rejected
	}{
		{5, []int64{1, 1, 3}, []int64{1, 5}},
		{1000, append(many(500, 1), 400), []int64{101}},
		{1000, append(many(50, 10), 400, 100), []int64{1}},
		{100, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 9}, []int64{1}},
	} {
		for _, algorithm := range []limit.Algorithm{limit.TokenBucket, limit.FixedWindow, limit.SlidingWindow, limit.SlidingLog} {
			for relays := range 3 {
				t.Run(fmt.Sprintf("%d of %v, algorithm %d, %d relays", row.limit, row.costs[len(row.costs)-1], algorithm, relays), func(t *testing.T) {
					c := newChain(t, fatal.Get(limit.New(limit.Spec{Algorithm: algorithm, Count: row.limit, Period: limit.Day}))(t), relays)
					for i, cost := range row.costs {
						if !c.request(cost) {
							t.Fatalf("request %d of %v is rejected", i, row.costs)
						}
					}
					for _, cost := range row.then {
						if c.request(cost) {
							t.Errorf("%d more are admitted", cost)
						}
					}
				})
			}
		}
	}
}

// TestChainDecidesAsOneLimiter: whatever requests cost and whenever they come, a
// holder that is alone, next to the counter or behind tiers, is denied nothing that
// one exact limiter would admit.
func TestChainDecidesAsOneLimiter(t *testing.T) {
	for seed := range 20 { // a hundred runs each, the same each time
		fatal.If(t, flag.Set("rapid.seed", strconv.Itoa(1+seed)))
		rapid.Check(t, compare)
	}
}

func compare(t *rapid.T) {
	spec := limit.Spec{
		Algorithm: limit.Algorithm(upTo(t, 3)),
		Period:    []limit.Micros{limit.Minute, limit.Hour, limit.Day}[upTo(t, 2)],
		Count:     1 + upTo(t, []int64{4, 20, 200, 5000}[upTo(t, 3)]),
	}
	if spec.Algorithm == limit.FixedWindow {
		spec.Align = limit.Align(upTo(t, 1))
	}
	l := fatal.Get(limit.New(spec))(t)
	relays := int(upTo(t, 2))
	if spec.Algorithm == limit.SlidingLog { // a relay notes two leases that it has cut, and a log may have more
		relays = 0
	}
	c := newChain(t, l, relays)
	most := []int64{1, max(1, spec.Count/50), max(1, spec.Count/5), spec.Count}[upTo(t, 3)]
	quick := upTo(t, 1) == 0
	for range 120 {
		if !quick || upTo(t, 20) == 0 {
			c.pass([]lease.Millis{0, 1, 20, 100, 700, 1500, 12_000, lease.Millis(spec.Period/limit.Millisecond) / 3}[upTo(t, 7)])
		}
		c.request(1 + upTo(t, most-1))
	}
}

// upTo is a number from 0 to n.
func upTo(t *rapid.T, n int64) int64 { return rapid.Int64Range(0, max(n, 0)).Draw(t, "n") }
