package edge

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/shed"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/shedding"
)

// shedRules is one shed rule with a class by the first letter of the path, and more fields of it and of its shed.
func shedRules(capacity int, more, shed string) string {
	return fmt.Sprintf(`{"rules":[{"name":"overload",%s"key":[{"header":"x-user"}],"shed":{"capacity":%d,%s"classes":[
		{"class":"critical","match":{"path":{"prefix":"/c"}}},
		{"class":"low","match":{"path":{"prefix":"/l"}}},
		{"class":"bulk","match":{"path":{"prefix":"/b"}}}]}}]}`, more, capacity, shed)
}

// paths are of the classes that shedRules has.
var paths = [shed.Classes]string{shed.Bulk: "/b", shed.Low: "/l", shed.Normal: "/n", shed.Critical: "/c"}

// crowd is the requests of a world that are in flight by one shed rule.
type crowd struct {
	*world
	open []stream
}

// come sends a request; false if it is refused.
func (c *crowd) come(worker int, class shed.Class, user string) bool {
	r := c.request(worker, paths[class], user)
	if r.Outcome == Admit {
		c.open = append(c.open, stream{worker, r})
		return true
	}
	c.workers[worker].End(c.now, r)
	return false
}

// leave ends a request in flight.
func (c *crowd) leave(i int) {
	s := c.open[i]
	c.workers[s.worker].End(c.now, s.request)
	c.open = slices.Delete(c.open, i, i+1)
}

func (c *crowd) tick(worker int) {
	c.workers[worker].Tick(c.now, c.wall())
	c.collect()
}

// rule is a worker's part of the rule.
func (c *crowd) rule(worker int) (rule *shedding.Rule) {
	c.workers[worker].EachShed(func(r *shedding.Rule) { rule = r })
	return rule
}

// Whatever the order in which requests come and end, workers tick and VMs start anew, no more are in flight than the
// capacity, and than its room when a lower class is admitted by one worker.
func TestCapacityHolds(t *testing.T) {
	for _, workers := range []int{1, 2, 8} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				capacity := rapid.SampledFrom([]int{1, 2, 5, 10, 40}).Draw(t, "capacity")
				c := crowd{world: newWorld(t, workers, shedRules(capacity, "", ""))}
				for range rapid.IntRange(1, 300).Draw(t, "steps") {
					worker := rapid.IntRange(0, workers-1).Draw(t, "worker")
					switch rapid.IntRange(0, 9).Draw(t, "step") {
					case 0:
						c.now += lease.Millis(rapid.IntRange(0, 120).Draw(t, "ms"))
					case 1, 2:
						c.tick(worker)
					case 3, 4:
						if len(c.open) > 0 {
							c.leave(rapid.IntRange(0, len(c.open)-1).Draw(t, "which"))
						}
					default:
						class := shed.Class(rapid.IntRange(0, 3).Draw(t, "class"))
						before := len(c.open)
						admitted := c.come(worker, class, "ann")
						room := int(shed.Room(int64(capacity), []int64{40, 60, 80, 100}[class]))
						if len(c.open) > capacity {
							t.Fatalf("%d in flight", len(c.open))
						}
						if workers == 1 && admitted != (before < room) && c.rule(0).Ratio == 0 {
							t.Fatalf("%v with %d in flight and room for %d: admitted %v", class, before, room, admitted)
						}
					}
				}
			})
		})
	}
}

// Each class finds room up to its share of the capacity, and critical requests up to all of it, whichever worker they come to.
func TestSharesOfTheCapacity(t *testing.T) {
	for _, workers := range []int{1, 2, 8} {
		c := crowd{world: newWorld(t, workers, shedRules(200, "", ""))}
		for class, want := range []int{80, 120, 160, 200} {
			refused := 0
			for i := 0; refused < 3*workers; i++ {
				if !c.come(i%workers, shed.Class(class), "ann") {
					refused++
				}
				if i%20 == 0 {
					c.pass(10)
				}
			}
			if n := len(c.open); n > want || n < want-workers {
				t.Errorf("%d workers, %v: refused with %d in flight, room for %d", workers, shed.Class(class), n, want)
			}
		}
	}
}

// comes sends requests to the workers in turn, 100 ms apart, and returns how many are in flight then.
func (c *crowd) comes(n int, class shed.Class) int {
	for i := range n {
		c.come(i%len(c.workers), class, "ann")
		c.pass(100)
	}
	return len(c.open)
}

// Where no time passes, requests are admitted by the capacity alone. A jump of the clock moves the level by a second.
func TestClockStandsStill(t *testing.T) {
	c := crowd{world: newWorld(t, 2, shedRules(20, "", `"profile":"fast",`))}
	for round := range 50 {
		for worker := range 2 {
			c.tick(worker)
			for range 20 {
				c.come(worker, shed.Critical, "ann")
			}
		}
		if n := len(c.open); n != 20 {
			t.Fatalf("round %d: %d in flight, want 20", round, n)
		}
		for len(c.open) > 10 {
			c.leave(0)
		}
		c.tick(0)
		c.tick(1)
	}
	c.now += 3_600_000
	if c.tick(0); c.rule(0).Ratio != 0 {
		t.Errorf("after a jump of the clock the ratio is %d", c.rule(0).Ratio)
	}
	c.now -= 1_800_000
	c.pass(1000)
}

// A shadow rule refuses none, says what it would do, and counts as in flight what it would let pass: so it would refuse as much
// when it is enforced.
func TestShadowShed(t *testing.T) {
	c := crowd{world: newWorld(t, 2, shedRules(10, `"mode":"shadow",`, ""))}
	would := 0
	for i := range 40 {
		if !c.come(i%2, shed.Normal, "ann") {
			t.Fatalf("request %d is refused", i)
		}
		if slices.Equal(c.open[i].request.WouldDeny, []string{"overload"}) {
			would++
		}
		c.pass(100)
	}
	if would != 32 {
		t.Errorf("it would refuse %d, want 32", would)
	}
	if r := c.rule(0); r.Utilization != 800 {
		t.Errorf("utilization %d", r.Utilization)
	}
	allowed, denied := c.counted(rulebook.Shed(shed.Normal, false, true)), c.counted(rulebook.Shed(shed.Normal, true, true))
	if allowed != 8 || denied != 32 {
		t.Errorf("%d and %d are counted as allowed and denied", allowed, denied)
	}
	for len(c.open) > 0 {
		c.leave(0)
	}
	c.pass(1000)
	if r := c.rule(0); r.Utilization != 0 {
		t.Errorf("utilization %d of nothing", r.Utilization)
	}
}

// counted is how often the rule decided so.
func (c *crowd) counted(d rulebook.Decision) (n uint64) {
	for _, x := range c.workers {
		x.EachRule(func(name string, counts *rulebook.RuleCounts) {
			if name == "overload" {
				n += counts.Decided[d]
			}
		})
	}
	return n
}

const shedAndLimit = `{"rules":[{"name":"overload","shed":{"capacity":1}},
	{"name":"user","key":[{"header":"x-user"}],"limit":"3/1h","algorithm":"fixed_window"%s}]}`

// What a shed rule refuses costs nothing on others, and its own denials count apart.
func TestShedCostsNothing(t *testing.T) {
	for _, scope := range []string{"", `,"scope":"pop"`} {
		w := newWorld(t, 1, fmt.Sprintf(shedAndLimit, scope))
		first := w.request(0, "/", "ann")
		w.settle()
		for range 20 {
			r := w.request(0, "/", "ann")
			if r.Outcome != Deny || r.Status != 503 || r.Shed == nil || r.Shed.Name != "overload" || r.Class != shed.Normal || r.Holds() {
				t.Fatalf("a request beyond the capacity: %+v", r)
			}
			if s := r.RetryAfter; s != 1000 && s != 2000 && s != 3000 {
				t.Errorf("retry after %d ms", s)
			}
			w.pass(20)
		}
		w.workers[0].End(w.now, first)
		for i := range 4 {
			r := w.request(0, "/", "ann")
			w.settle()
			if admitted := r.Outcome == Admit; admitted != (i < 2) {
				t.Errorf("%s: request %d after one: admitted %v", scope, i, admitted)
			}
			w.workers[0].End(w.now, r)
		}
		c := crowd{world: w}
		if n := c.counted(rulebook.Shed(shed.Normal, true, false)); n != 20 {
			t.Errorf("%d denials are counted", n)
		}
		uses := w.workers[0].rules.Uses(nil, w.now)
		if u := uses[0]; u.Rule != "overload" || u.Denied != 20 || u.Admitted != 3 {
			t.Errorf("the use of the rule: %+v", u)
		}
	}
}

// A request that waits for the region counts, and stops when it is reset, or refused by a limit.
func TestShedWhileWaiting(t *testing.T) {
	w := newWorld(t, 1, fmt.Sprintf(shedAndLimit, ""))
	r := w.request(0, "/", "ann")
	if r.Outcome != Wait || !r.Holds() {
		t.Fatalf("the first of a key: %+v", r)
	}
	if other := w.request(0, "/", "bob"); other.Outcome != Deny {
		t.Error("a request that waits does not count")
	}
	w.workers[0].End(w.now, r) // reset
	w.settle()
	for range 4 {
		w.pass(20)
		r = w.request(0, "/", "cat")
		w.settle()
		if r.Shed != nil {
			t.Fatal("what is over counts")
		}
		if r.Outcome == Deny && r.Holds() {
			t.Error("a limit refused it, and it counts")
		}
		w.workers[0].End(w.now, r)
	}
	if r.Outcome != Deny {
		t.Error("the fourth of a key is not refused by its limit")
	}
}
