package shedding

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/internal/shed"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/wasmfilter/edge/pop"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
	"github.com/weirlimit/weir/wasmfilter/edge/table/tabletest"
)

// crowd is the workers of a PoP with one shed rule, and the requests that are in flight.
type crowd struct {
	t       rapid.TB
	now     lease.Millis
	store   table.Store
	set     *rule.Set
	workers []*Rules
	started uint64
	counts  rulebook.RuleCounts
	open    []Held
}

// newCrowd makes workers with a rule of this capacity, with more fields of it and of its shed.
func newCrowd(t rapid.TB, workers, capacity int, more, fields string) *crowd {
	c := &crowd{t: t, now: 1_000_000, store: tabletest.New()}
	c.set = c.rules(capacity, more, fields)
	for range workers {
		c.start()
	}
	return c
}

func (c *crowd) rules(capacity int, more, fields string) *rule.Set {
	return fatal.Get(read.JSON(fmt.Appendf(nil, `{"rules":[{"name":"overload",%s"key":[{"header":"x-user"}],
		"shed":{"capacity":%d,%s"classes":[{"class":"critical","match":{"path":"/c"}},{"class":"low","match":{"path":"/l"}},
			{"class":"bulk","match":{"path":"/b"}}]}}]}`, more, capacity, fields)))(c.t)
}

// start adds a worker.
func (c *crowd) start() {
	c.started++
	p := pop.Join(c.store, [6]uint64{1, 2, 3, 4, 2 * c.started, c.started})
	p.SetClock(c.now, 1_800_000_000*limit.Second)
	c.workers = append(c.workers, New(p))
	c.use(c.set, c.workers[len(c.workers)-1])
}

func (c *crowd) use(set *rule.Set, workers ...*Rules) {
	for _, w := range workers {
		w.Use(set, func(string) *rulebook.RuleCounts { return &c.counts })
	}
}

// come sends a request; false if it is rejected.
func (c *crowd) come(worker int, class shed.Class, user string) bool {
	r := c.workers[worker].Of(0)
	held, rejected := r.Enter(c.now, &rule.ShedHit{Class: class, Key: []byte(user)})
	if rejected && !r.Shadow {
		return false
	}
	held.Count()
	c.open = append(c.open, held)
	return true
}

// comes sends requests to the workers in turn, 100 ms apart, and returns how many are in flight then.
func (c *crowd) comes(n int, class shed.Class) int {
	for i := range n {
		c.come(i%len(c.workers), class, "ann")
		c.pass(100)
	}
	return len(c.open)
}

// leave ends a request in flight.
func (c *crowd) leave(i int) {
	c.open[i].Leave()
	c.open = slices.Delete(c.open, i, i+1)
}

func (c *crowd) leaveAll() {
	for len(c.open) > 0 {
		c.leave(0)
	}
}

func (c *crowd) tick() {
	for _, w := range c.workers {
		w.Tick(c.now)
	}
}

// pass lets time pass, and the workers tick.
func (c *crowd) pass(d lease.Millis) {
	for end := c.now + d; c.now < end; c.tick() {
		c.now += min(100, end-c.now)
	}
}

// rule is a worker's part of the rule.
func (c *crowd) rule(worker int) (rule *Rule) {
	c.workers[worker].Each(func(r *Rule) { rule = r })
	return rule
}

// Whatever the order in which requests come and end, workers tick and VMs start anew, no more are in flight than the
// capacity, and than its room when a lower class is admitted by one worker.
func TestCapacityHolds(t *testing.T) {
	for _, workers := range []int{1, 2, 8} {
		rapid.Check(t, func(t *rapid.T) {
			capacity := rapid.SampledFrom([]int{1, 2, 5, 10, 40}).Draw(t, "capacity")
			c := newCrowd(t, workers, capacity, "", "")
			for range rapid.IntRange(1, 300).Draw(t, "steps") {
				worker := rapid.IntRange(0, workers-1).Draw(t, "worker")
				switch rapid.IntRange(0, 9).Draw(t, "step") {
				case 0:
					c.now += lease.Millis(rapid.IntRange(0, 120).Draw(t, "ms"))
				case 1, 2:
					c.workers[worker].Tick(c.now)
				case 3, 4:
					if len(c.open) > 0 {
						c.leave(rapid.IntRange(0, len(c.open)-1).Draw(t, "which"))
					}
				default:
					class := shed.Class(rapid.IntRange(0, 3).Draw(t, "class"))
					before := len(c.open)
					admitted := c.come(worker, class, "ann")
					room := int(shed.ClassCapacity(int64(capacity), []int64{40, 60, 80, 100}[class]))
					if len(c.open) > capacity {
						t.Fatalf("%d in flight", len(c.open))
					}
					if workers == 1 && admitted != (before < room) && c.rule(0).Ratio == 0 {
						t.Fatalf("%v with %d in flight and room for %d: admitted %v", class, before, room, admitted)
					}
				}
			}
		})
	}
}

// A shadow rule rejects none, and counts as in flight what it would let pass: so it would reject as much when it is enforced.
func TestShadow(t *testing.T) {
	c := newCrowd(t, 2, 10, `"mode":"shadow",`, "")
	if n := c.comes(40, shed.Normal); n != 40 || c.rule(0).Utilization != 800 {
		t.Errorf("%d of 40 are admitted, utilization %d", n, c.rule(0).Utilization)
	}
	allowed, denied := c.counts.Decided[rulebook.Shed(shed.Normal, false, true)], c.counts.Decided[rulebook.Shed(shed.Normal, true, true)]
	if allowed != 8 || denied != 32 {
		t.Errorf("%d and %d are counted as allowed and denied", allowed, denied)
	}
	c.leaveAll()
	if c.pass(1000); c.rule(0).Utilization != 0 {
		t.Errorf("utilization %d of nothing", c.rule(0).Utilization)
	}
}

// A worker that starves, as its thread is busy, keeps what it has in flight for 10 s; then the others have its room. When it
// comes back it counts again.
func TestStarvedWorker(t *testing.T) {
	c := newCrowd(t, 2, 10, "", "")
	for range 6 {
		c.come(1, shed.Critical, "ann")
	}
	starve := func(ticks, requests int) int {
		for i := range ticks {
			if i >= ticks-requests {
				c.come(0, shed.Critical, "bob")
			}
			c.now += 100
			c.workers[0].Tick(c.now)
		}
		return len(c.open)
	}
	if n := starve(100, 10); n != 10 {
		t.Errorf("%d in flight while a worker starves, want 10", n)
	}
	if n := starve(30, 10); n != 16 {
		t.Errorf("%d in flight after 10 s, want 10 of the worker that is left beside 6", n)
	}
	if c.come(1, shed.Critical, "ann") {
		t.Error("the worker that is back admits more")
	}
	c.pass(200)
	if c.leave(15); c.come(0, shed.Critical, "bob") {
		t.Error("what the worker has that is back does not count")
	}
}

// What is in flight belongs to the rule by its name, whatever becomes of the rules.
func TestRulesChange(t *testing.T) {
	c := newCrowd(t, 2, 10, "", "")
	none := fatal.Get(read.JSON([]byte(`{"rules":[]}`)))(t)
	c.comes(8, shed.Critical)
	c.use(c.rules(9, "", ""), c.workers...)
	if n := c.comes(4, shed.Critical); n != 9 {
		t.Errorf("%d in flight after the capacity has become 9", n)
	}
	c.use(c.rules(9, `"mode":"off",`, ""), c.workers...)
	if c.workers[0].Of(0) != nil {
		t.Error("a rule that is off decides")
	}
	c.leave(0)
	c.use(none, c.workers...)
	c.leave(7)
	c.pass(1000)
	c.use(c.rules(9, "", ""), c.workers...)
	if n := c.comes(4, shed.Critical); n != 9 {
		t.Errorf("%d in flight after the rule has come back", n)
	}
	c.use(none, c.workers...)
	c.leaveAll()
	if c.pass(300); c.rule(0) != nil {
		t.Errorf("a rule that is gone is kept: %+v", c.rule(0))
	}
}

// What is in the store cannot break a worker.
func TestRecordIsSpoilt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCrowd(t, 2, 10, "", "")
		c.comes(1, shed.Critical)
		spoilt := rapid.OneOf(
			rapid.SliceOf(rapid.Byte()),
			rapid.Custom(func(t *rapid.T) []byte {
				words := rapid.IntRange(0, 40).Draw(t, "words")
				return rapid.SliceOfN(rapid.Byte(), 8*words, 8*words).Draw(t, "bytes")
			}),
			rapid.Just(make([]byte, 8*(headWords+rowWords*65)))).Draw(t, "record")
		c.store.Set([]byte("shed1:overload"), spoilt, 0)
		if n := c.comes(30, shed.Critical); n < 10 || n > 11 {
			t.Errorf("%d in flight", n)
		}
	})
}

// However many workers there are, the capacity holds. A worker without memory to share decides alone.
func TestManyWorkersOrNone(t *testing.T) {
	c := newCrowd(t, 260, 256, "", "")
	for range 3 {
		for worker := range c.workers {
			c.come(worker, shed.Critical, "ann")
		}
		c.pass(100)
	}
	if n := len(c.open); n != 256 {
		t.Errorf("%d in flight, want 256", n)
	}
	c = newCrowd(t, 0, 5, "", "")
	c.store = new(tabletest.Store)
	c.start()
	if n := c.comes(10, shed.Critical); n != 5 {
		t.Errorf("%d in flight by a worker alone", n)
	}
}

// answered sends a request that takes no time, whose response states a load or fails; false if it is rejected.
func (c *crowd) answered(worker int, class shed.Class, user string, failed bool, load int64) bool {
	if !c.come(worker, class, user) {
		return false
	}
	last := len(c.open) - 1
	if held := c.open[last:]; c.workers[worker].Samples(held) {
		c.workers[worker].Responded(c.now, held, failed, load)
	}
	c.leave(last)
	return true
}

// One client whose requests all fail has nobody else rejected, whether it states the key or leaves it out.
func TestOneClientsFailures(t *testing.T) {
	for _, eve := range []string{"eve", ""} {
		c := newCrowd(t, 4, 1000, "", `"profile":"fast","success":95,`)
		rejected := 0
		for i := range 60_000 {
			if c.now += lease.Millis(i % 2); i%200 == 0 {
				c.tick()
			}
			user, failed := fmt.Sprint("user-", i%997), i%8 != 0
			if failed {
				user = eve
			}
			if !c.answered(i%4, shed.Normal, user, failed, -1) && !failed {
				rejected++
			}
		}
		if rejected > 75 {
			t.Errorf("%d of 7500 requests of others are rejected for the failures of %q", rejected, eve)
		}
	}
}

// press has an upstream with so much load answer requests for so many seconds, one in 10 ms, and returns how many of each class
// were rejected.
func (c *crowd) press(seconds int, load int64, failed bool, classes ...shed.Class) (rejected [shed.Classes]int) {
	for i := range seconds * 100 {
		if c.now += 10; i%10 == 0 {
			c.tick()
		}
		class := classes[i%len(classes)]
		if !c.answered(i/len(classes)%len(c.workers), class, fmt.Sprint("user-", i%997), failed, load) {
			rejected[class]++
		}
	}
	return rejected
}

// All traffic is critical: nothing but the capacity rejects any.
func TestAllCritical(t *testing.T) {
	c := newCrowd(t, 2, 50, "", `"profile":"fast",`)
	if got := c.press(30, 1000, true, shed.Critical); got[shed.Critical] != 0 {
		t.Errorf("%d rejected", got[shed.Critical])
	}
	for i := range 60 {
		if admitted := c.come(i%2, shed.Critical, "ann"); admitted != (i < 50) {
			t.Errorf("request %d: admitted %v", i, admitted)
		}
		c.pass(100)
	}
}

// Below 5 requests a second at the PoP the ratio rejects none.
func TestFewRequests(t *testing.T) {
	c := newCrowd(t, 2, 1000, "", `"profile":"fast",`)
	c.press(20, 1000, false, shed.Bulk)
	c.pass(2000)
	for i := range 40 {
		if !c.answered(i%2, shed.Bulk, "ann", false, 1000) {
			t.Errorf("request %d is rejected", i)
		}
		c.pass(250)
	}
}

// A rule without classes rejects by chance: each client as often as another.
func TestOneClass(t *testing.T) {
	c := newCrowd(t, 0, 1, "", "")
	c.set = fatal.Get(read.JSON([]byte(`{"rules":[{"name":"overload","key":[{"header":"x-user"}],"shed":{"capacity":1000,"profile":"fast"}}]}`)))(t)
	for c.start(); c.rule(0).Ratio < 400_000; {
		c.press(1, 1000, false, shed.Normal)
	}
	ratio, rejected := c.rule(0).Ratio, 0
	for i := range 4000 {
		if !c.answered(0, shed.Normal, "ann", false, 1000) {
			rejected++
		}
		if i%400 == 0 {
			c.pass(1)
		}
	}
	if want := int(ratio * 4000 / shed.Million); rejected < want*9/10 || rejected > want*11/10 {
		t.Errorf("%d of 4000 requests of one client are rejected, want %d", rejected, want)
	}
}

// A rate is that of whole seconds, also of a worker that was busy for longer, or whose clock was set back.
func TestRateOfRequests(t *testing.T) {
	r := rate{since: 1000}
	for _, c := range []struct {
		now   lease.Millis
		count int64
		last  int64 // in 1,000 seconds
	}{{1999, 10, 0}, {2000, 0, 10_000}, {2500, 7, 10_000}, {6000, 1, 2000}, {5000, 3, 3000}, {5999, 5, 3000}, {6000, 0, 5000}} {
		r.count += c.count
		if r.tick(c.now); r.last != c.last {
			t.Errorf("at %d: %d requests in 1,000 s, want %d", c.now, r.last, c.last)
		}
	}
}

// The first response after a tick is looked at, and one in 16 after it; those without a shed rule never.
func TestSamples(t *testing.T) {
	c := newCrowd(t, 1, 10, "", "")
	held := []Held{{}}
	for range 2 {
		for n := range 3 * sampled {
			if got := c.workers[0].Samples(held); got != (n%sampled == 0) {
				t.Errorf("response %d: looked at %v", n, got)
			}
			if c.workers[0].Samples(nil) {
				t.Error("a response without a shed rule is looked at")
			}
		}
		c.workers[0].Samples(held)
		c.tick()
	}
}

// A row counts for 10 s, and its responses for 2 s. One of a later time counts as far as clocks may differ.
func TestRows(t *testing.T) {
	const at lease.Millis = 100_000
	sums := shed.Sums{Load: 1, Loads: 3, Failed: 2, Count: 4}
	whole, old := totals{inFlight: 5, claims: 7, offered: 9, workers: 1, sums: sums}, totals{inFlight: 5, claims: 7, offered: 9, workers: 1}
	for now, want := range map[lease.Millis]totals{
		at: whole, at + 1999: whole, at + 2000: old, at + 9999: old, at + 10_000: {}, at - 10_000: whole, at - 10_001: {},
	} {
		r := record{rows: []row{{worker: 1, at: now}, {worker: 2, at: at, inFlight: 5, claim: 7, offered: 9, sums: sums}}}
		if !r.drop(1, now) || r.drop(1, now) || r.totals(now) != want {
			t.Errorf("at %d: %+v, want %+v", now, r.totals(now), want)
		}
	}
	r := record{updated: at}
	for _, c := range []struct {
		now, updated lease.Millis
		level        int64
	}{{at + 99, at, 0}, {at + 100, at + 100, 100_000}, {at, at, 100_000}, {at + 200, at + 200, 300_000}} {
		if r.move(c.now, &rule.Shed{Profile: shed.Fast}, 1000); r.updated != c.updated || r.level != c.level {
			t.Errorf("%+v: %+v", c, r)
		}
	}
}

// A worker claims a part of what is free, at least its need, within the room of the class, and keeps a claim that counts.
func TestClaims(t *testing.T) {
	one := func(inFlight, claims int64) totals { return totals{workers: 1, inFlight: inFlight, claims: claims} }
	for _, c := range []struct {
		inFlight, claim int64
		others          totals
		room, need      int64
		kept            bool
		want            int64
	}{
		{10, 0, totals{}, 100, 1, false, 21}, {10, 0, one(20, 25), 100, 1, false, 14}, {10, 0, one(20, 25), 36, 1, false, 11},
		{10, 0, one(20, 25), 30, 1, false, 10}, {99, 0, totals{}, 100, 1, false, 100}, {99, 0, totals{}, 100, 0, false, 99},
		{10, 50, totals{}, 100, 1, true, 50}, {10, 50, totals{}, 100, 0, true, 21}, {10, 50, totals{}, 100, 1, false, 21},
		{10, 0, one(95, 95), 100, 1, false, 10},
	} {
		r := &Rule{of: &rule.Rule{Shed: &rule.Shed{Capacity: 100}}, inFlight: c.inFlight, claim: c.claim}
		if got := r.claims(&c.others, c.room, c.need, c.kept); got != c.want {
			t.Errorf("%+v: claims %d", c, got)
		}
	}
}
