package edge

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
)

// Users come and go, keys are spent, the region goes away now and then, and rules get
// other names and shapes: in a table with places for some 85 users at a time no key
// is ever without one, however many there were in all. Two minutes of this, or with
// WEIR_LONG six hours.
func TestSoak(t *testing.T) {
	const rules = `{"rules":[
		{"name":"pop%d","key":[{"header":"x-user"}],"limit":"20/10s","scope":"pop"},
		{"name":"leased","key":[{"header":"x-user"}],"limit":"%d/1m","algorithm":"sliding_window"},
		{"name":"exact","match":{"path":"/login"},"key":[{"header":"x-user"}],"limit":"3/20s","algorithm":"fixed_window","consistency":"exact"},
		{"name":"open","key":[{"header":"x-user"}],"limit":2,"algorithm":"concurrency","scope":"pop"}]}`
	long := lease.Millis(120_000)
	if os.Getenv("WEIR_LONG") != "" {
		long = 6 * 3600 * 1000
	}
	w := newNarrowWorld(t, 2, 4, fmt.Sprintf(rules, 0, 100))
	rnd := rand.New(rand.NewPCG(1, 2))
	users, next := make([]string, 40), 0
	newcomer := func(i int) { next++; users[i] = fmt.Sprintf("%0*d", 20+rnd.IntN(200), next) }
	for i := range users {
		newcomer(i)
	}
	away := false
	answer := func() {
		if away {
			w.cut()
		} else {
			w.settle()
		}
	}
	for from, second := w.now, 0; w.now < from+long; second++ {
		newcomer(rnd.IntN(len(users)))
		newcomer(rnd.IntN(len(users)))
		if away = second%60 >= 50 && second%60 < 55; second%45 == 30 {
			w.region.set = mustRules(t, fmt.Sprintf(rules, second/45%3, 100+second/45%2))
		}
		for range 10 {
			for range 12 {
				path := "/"
				if rnd.IntN(4) == 0 {
					path = "/login"
				}
				worker := rnd.IntN(2)
				r := w.request(worker, path, users[rnd.IntN(len(users))])
				answer()
				w.workers[worker].End(w.now, r)
			}
			w.pass(100)
			answer()
		}
	}
	if n := w.full(); n["leased"]+n["exact"]+n["open"]+n["pop0"]+n["pop1"]+n["pop2"] > 0 {
		t.Errorf("decisions without a place after %d users: %v", next, n)
	}
	for i, x := range w.workers {
		if c := x.Tables(); c.Full+c.Merged+c.Corrupt > 0 {
			t.Errorf("worker %d: %+v", i, c)
		}
	}
	w.region.set = mustRules(t, fmt.Sprintf(rules, 0, 100))
	w.quiet()
	w.silent()
	w.now += 60_000
	w.quiet()
	w.empty()
}
