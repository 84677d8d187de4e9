package edge

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/shed"
)

// One client whose requests all fail has nobody else refused, whether it states the key or leaves it out.
func TestOneClientsFailures(t *testing.T) {
	for _, eve := range []string{"eve", ""} {
		c := crowd{world: newWorld(t, 4, shedRules(1000, "", `"profile":"fast","success":95,`))}
		refused := 0
		for i := range 60_000 {
			if c.now += lease.Millis(i % 2); i%200 == 0 {
				for worker := range c.workers {
					c.tick(worker)
				}
			}
			worker, user, failed := i%4, fmt.Sprint("user-", i%997), i%8 != 0
			if failed {
				user = eve
			}
			if !c.come(worker, shed.Normal, user) {
				if !failed {
					refused++
				}
				continue
			}
			if c.workers[worker].Samples(c.open[0].request) {
				c.workers[worker].Responded(c.now, c.open[0].request, failed, -1)
			}
			c.leave(0)
		}
		if refused > 75 {
			t.Errorf("%d of 7500 requests of others are refused for the failures of %q", refused, eve)
		}
	}
}

// press has an upstream with so much load answer requests for so many seconds, one in 10 ms, and returns how many of each class
// were refused. A request takes no time.
func (c *crowd) press(seconds int, load int64, failed bool, classes ...shed.Class) (refused [shed.Classes]int) {
	for i := range seconds * 100 {
		if c.now += 10; i%10 == 0 {
			for worker := range c.workers {
				c.tick(worker)
			}
		}
		class := classes[i%len(classes)]
		worker := i / len(classes) % len(c.workers)
		if !c.come(worker, class, fmt.Sprint("user-", i%997)) {
			refused[class]++
			continue
		}
		r := c.open[len(c.open)-1].request
		if c.workers[worker].Samples(r) {
			c.workers[worker].Responded(c.now, r, failed, load)
		}
		c.leave(len(c.open) - 1)
	}
	return refused
}

// An upstream that states that it is full has lower classes refused, critical ones never; and when it is well again nothing is
// refused within the time of the profile.
func TestRatio(t *testing.T) {
	for name, does := range map[string]func(*crowd, int) [shed.Classes]int{
		"load":     func(c *crowd, s int) [shed.Classes]int { return c.press(s, 1000, false, 0, 1, 2, 3) },
		"failures": func(c *crowd, s int) [shed.Classes]int { return c.press(s, -1, true, 0, 1, 2, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			c := crowd{world: newWorld(t, 2, shedRules(1000, "", `"profile":"fast","success":95,`))}
			if got := c.press(2, 0, false, 0, 1, 2, 3); got != [shed.Classes]int{} {
				t.Errorf("refused without overload: %v", got)
			}
			does(&c, 30) // what was well is forgotten, and the level is at its top
			got := does(&c, 10)
			for class, n := range got[:shed.Critical] {
				if n < 240 {
					t.Errorf("%d of 250 %v requests are refused", n, shed.Class(class))
				}
			}
			if got[shed.Critical] != 0 || c.rule(0).Ratio < 900_000 || c.rule(1).Utilization != 1000 {
				t.Errorf("%d critical requests are refused; ratio %d, utilization %d", got[shed.Critical], c.rule(0).Ratio, c.rule(1).Utilization)
			}
			c.press(30, 0, false, 0, 1, 2, 3)
			if got := c.press(10, 0, false, 0, 1, 2, 3); got != [shed.Classes]int{} {
				t.Errorf("refused when all is well again: %v", got)
			}
		})
	}
}

// All traffic is critical: nothing but the capacity refuses any.
func TestAllCritical(t *testing.T) {
	c := crowd{world: newWorld(t, 2, shedRules(50, "", `"profile":"fast",`))}
	if got := c.press(30, 1000, true, shed.Critical); got[shed.Critical] != 0 {
		t.Errorf("%d refused", got[shed.Critical])
	}
	for i := range 60 {
		if admitted := c.come(i%2, shed.Critical, "ann"); admitted != (i < 50) {
			t.Errorf("request %d: admitted %v", i, admitted)
		}
		c.pass(100)
	}
}

// Below 5 requests a second at the PoP the ratio refuses none.
func TestFewRequests(t *testing.T) {
	c := crowd{world: newWorld(t, 2, shedRules(1000, "", `"profile":"fast",`))}
	c.press(20, 1000, false, shed.Bulk)
	c.pass(2000)
	for i := range 40 {
		if !c.come(i%2, shed.Bulk, "ann") {
			t.Errorf("request %d is refused", i)
		}
		c.leave(0)
		c.pass(250)
	}
}

// Streams that stay open take room and nothing else: however long they last, the ratio stays 0 and critical requests pass.
func TestIdleStreams(t *testing.T) {
	c := crowd{world: newWorld(t, 1, shedRules(20, "", `"profile":"fast",`))}
	for _, streams := range []int{15, 16} { // of 16 that are not critical
		for len(c.open) < streams {
			if !c.come(0, shed.Normal, "watcher") {
				t.Fatalf("stream %d is refused", len(c.open))
			}
		}
		for i := range 5 * 600 { // ten minutes of 5 requests a second
			class := []shed.Class{shed.Normal, shed.Critical}[i%2]
			if admitted := c.come(0, class, "ann"); admitted != (class == shed.Critical || streams == 15) {
				t.Fatalf("%d streams, request %d, %v: admitted %v", streams, i, class, admitted)
			} else if admitted {
				c.leave(len(c.open) - 1)
			}
			c.pass(200)
		}
		if ratio := c.rule(0).Ratio; ratio != 0 {
			t.Errorf("%d streams: the ratio is %d", streams, ratio)
		}
	}
}
