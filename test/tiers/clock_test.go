package tiers

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
)

const clockRules = `
regions: { eu: 1, us: 3 }
rules:
  - { name: shared, key: [ { header: x-key } ], limit: 400/10s, algorithm: fixed_window, scope: global }
  - { name: window, key: [ { header: x-key } ], limit: 50/5s, algorithm: fixed_window }
  - { name: sliding, key: [ { header: x-key } ], limit: 50/5s, algorithm: sliding_window }
  - { name: bucket, key: [ { header: x-key } ], limit: 10/1s, algorithm: token_bucket }
`

// The windows of the limit that regions share, and of those of a region.
const sharedWindow, ownWindow = 10 * time.Second, 5 * time.Second

// clockBudget is how long a call may take. A busy machine delays no answer for so long.
const clockBudget = time.Second

// clockTest is two regions and their aggregator. One of them, eu or the aggregator, has a Redis, whose clock the test sets.
type clockTest struct {
	t          *testing.T
	aggregator *region.Region
	clock      *redistest.Clock
	eu, us     *replica
	wasSet     func(ahead time.Duration) // the clock, or nil
}

// startClocks starts them, with the Redis of eu or of global so far ahead.
func startClocks(t *testing.T, tier string, ahead time.Duration) *clockTest {
	t.Helper()
	dir := proc.LogDir(t)
	c := &clockTest{t: t, clock: redistest.NewClock(t)}
	c.clock.Set(ahead)
	redis := redistest.Start(t, c.clock.Option())
	store := map[string][]string{"global": {"--state", filepath.Join(dir, "global.state")}, "eu": {"--state", "off"}}
	store[tier] = []string{"--redis", redis.Addr, "--redis-timeout", clockBudget.String()}
	c.aggregator = region.New(t, region.Config{Dir: dir, Name: "global", Rules: clockRules, Program: "weir-global", Flags: store["global"]})
	c.aggregator.Start()
	regional := func(name string, flags ...string) *replica {
		r := &replica{region.New(t, region.Config{Dir: dir, Name: name, Rules: clockRules, Flags: append(flags, "--region", name)}), t}
		r.Start()
		proc.Eventually(t, time.Minute, name+" is connected", func() bool { return r.Metrics()["weir_aggregator_up"] == 1 })
		return r
	}
	c.eu = regional("eu", append(store["eu"], "--aggregator", c.aggregator.Addr)...)
	c.us = regional("us", "--aggregator", c.aggregator.Addr, "--state", "off")
	return c
}

// segment is a time in which the clock of eu's Redis does not change.
type segment struct {
	ahead       time.Duration
	from, until time.Time // of the machine's clock
}

// windows is how many windows of a length by a clock that is ahead touch the segment.
func (s *segment) windows(length, ahead time.Duration) int {
	first, last := s.from.Add(ahead).Truncate(length), s.until.Add(ahead).Truncate(length)
	return int(last.Sub(first)/length) + 1
}

// grants are what one holder was granted of one key, and the calls that failed it.
type grants struct {
	region *replica
	rule   string
	at     []time.Time
	calls  int
	failed int // undecided, or answered late
}

// ask asks for single units until done is closed.
func (g *grants) ask(t *testing.T, key string, done <-chan struct{}) {
	h := g.region.newHolder()
	h.budget = clockBudget
	for {
		select {
		case <-done:
			return
		case <-time.After(15 * time.Millisecond):
		}
		status, n, took, err := h.ask(t.Context(), g.rule, key)
		g.calls++
		if n > 0 {
			g.at = append(g.at, time.Now())
		}
		if err != nil || status != quotav1.Status_STATUS_OK && status != quotav1.Status_STATUS_DENIED || took > clockBudget {
			g.failed++
		}
	}
}

// under asks both regions for more than all limits while the clock of eu's Redis is set to each
// of the offsets for so long. The shared limit may be granted in so many windows more.
func (c *clockTest) under(key string, more int, length time.Duration, offsets ...time.Duration) {
	c.t.Helper()
	var segments []segment
	all := []*grants{{region: c.us, rule: "shared"}}
	for _, rule := range []string{"shared", "window", "sliding", "bucket"} {
		all = append(all, &grants{region: c.eu, rule: rule})
	}
	done := make(chan struct{})
	var running sync.WaitGroup
	for _, g := range all {
		running.Go(func() { g.ask(c.t, key, done) })
	}
	for _, ahead := range offsets {
		s := segment{ahead: ahead, from: time.Now()}
		c.clock.Set(ahead)
		if c.wasSet != nil {
			c.wasSet(ahead)
		}
		time.Sleep(time.Until(s.from.Add(length)))
		s.until = time.Now()
		segments = append(segments, s)
	}
	close(done)
	running.Wait()
	for _, g := range all {
		for _, s := range segments {
			if !slices.ContainsFunc(g.at, func(at time.Time) bool { return s.from.Before(at) && at.Before(s.until) }) {
				c.t.Errorf("%s: %s was granted nothing for %v while Redis was %v ahead",
					g.region.Name, g.rule, s.until.Sub(s.from), s.ahead)
			}
		}
		if g.failed > 1+g.calls/20 {
			c.t.Errorf("%s: %s: of %d calls %d were undecided or late", g.region.Name, g.rule, g.calls, g.failed)
		}
	}
	c.within(segments, all, more)
}

// within checks what eu's own limits admitted, and the shared one in its windows by the clock of the aggregator and so
// many more.
func (c *clockTest) within(segments []segment, all []*grants, more int) {
	c.t.Helper()
	begin, end := segments[0].from, segments[len(segments)-1].until
	own, shared := 0, more+(&segment{from: begin, until: end}).windows(sharedWindow, 0)
	for _, s := range segments {
		own += s.windows(ownWindow, s.ahead)
	}
	// A step may fill the bucket anew: 10 units; 10 more may be out on lease when it does.
	bucket := 10*int(end.Sub(begin)/time.Second+1) + 20*len(segments)
	bounds := map[string]int{"window": 50 * own, "sliding": 50 * own, "bucket": bucket, "shared": 400 * shared}
	for rule, most := range bounds {
		n := 0
		for _, g := range all {
			if g.rule == rule {
				n += len(g.at)
			}
		}
		if n > most {
			c.t.Errorf("%s: %d were granted, at most %d in %d windows, and %d of the shared limit", rule, n, most, own, shared)
		}
	}
}

// The clock of a region's Redis is wrong by an hour, is set while it runs, and is wrong the other
// way: everything is decided in time, the other region notices nothing, and each step adds no more than one limit of the region.
func TestRegionWithAWrongClock(t *testing.T) {
	t.Parallel()
	c := startClocks(t, "eu", -time.Hour)
	c.under("connected", 0, ownWindow+2*time.Second, -time.Hour, time.Hour, 0)
}

// The clock of the aggregator's Redis is set back ten minutes: the aggregator decides nothing and says so in its health,
// and regions go on by their reserves. When the clock is right again all is as before.
func TestClockOfTheAggregatorIsSetBack(t *testing.T) {
	t.Parallel()
	c := startClocks(t, "global", 0)
	answered := func() float64 { return c.eu.Metrics()[`weir_aggregator_calls_total{result="answered"}`] }
	before := answered()
	proc.Eventually(t, time.Minute, "eu knows its share", func() bool { return answered() > before+4 })
	c.wasSet = func(ahead time.Duration) {
		want, reason := http.StatusOK, ""
		if ahead < 0 {
			want, reason = http.StatusServiceUnavailable, "clock of the store"
		}
		proc.Eventually(t, time.Minute, fmt.Sprint("the health of the aggregator is ", want), func() bool { return c.healthIs(want, reason) })
	}
	for _, step := range []struct{ ahead, length time.Duration }{{-10 * time.Minute, ownWindow}, {0, sharedWindow}} {
		// In the window that runs when the clock is set back regions have their shares beside what was granted.
		c.under(step.ahead.String(), 1, step.length+2*time.Second, step.ahead)
	}
	if n := c.aggregator.Metrics()["weir_aggregator_undecided"]; n != 0 {
		t.Errorf("weir_aggregator_undecided is %v when all is as before", n)
	}
}

// healthIs reports whether both ports of the aggregator answer so, for this reason.
func (c *clockTest) healthIs(status int, reason string) bool {
	ready, why := c.aggregator.Ready()
	resp, body, err := page.Get(c.t.Context(), c.aggregator.HTTP, "http://"+c.aggregator.Addr+"/healthz")
	return err == nil && resp.StatusCode == status && ready == status && strings.Contains(string(body), reason) && strings.Contains(why, reason)
}
