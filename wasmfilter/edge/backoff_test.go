package edge

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
)

// A region that answers, and decides nothing, is left alone: at most ten asks a second
// for a key, whatever the rule and however hot the key, and soon one.
func TestAnswersThatDecideNothing(t *testing.T) {
	const rules = `{"rules":[
		{"name":"leased","match":{"path":"/leased"},"key":[{"header":"x-user"}],"limit":"1000000/1m","algorithm":"sliding_window"},
		{"name":"exact","match":{"path":"/exact"},"key":[{"header":"x-user"}],"limit":"1000000/1m","consistency":"exact","on_failure":"deny"},
		{"name":"optimistic","match":{"path":"/optimistic"},"key":[{"header":"x-user"}],"limit":"1000000/1m","algorithm":"fixed_window","consistency":"optimistic","overdraft":3,"on_failure":"local"},
		{"name":"shadow","match":{"path":"/shadow"},"key":[{"header":"x-user"}],"limit":"1000000/1m","algorithm":"sliding_window","mode":"shadow"},
		{"name":"slots","match":{"path":"/slots"},"key":[{"header":"x-user"}],"limit":5,"algorithm":"concurrency","on_failure":"deny"}]}`
	for _, path := range []string{"leased", "exact", "optimistic", "shadow", "slots"} {
		for _, status := range []lease.Status{lease.Unavailable, lease.UnknownRule} {
			t.Run(fmt.Sprint(path, " ", status), func(t *testing.T) {
				const workers = 4
				w := newWorld(t, workers, rules)
				w.region.fails = status
				begin, most, last := w.now, 0, 0
				for second := range 20 {
					before := w.region.wants
					w.hot(1000, 2, "/"+path, workers)
					last = w.region.wants - before
					most = max(most, last)
					if second == 0 && last == 0 {
						t.Fatal("nothing was asked")
					}
				}
				asking := workers // each, of a concurrency limit; of others the PoP as one
				if path != "slots" {
					asking = 1
				}
				if most > 10*asking+workers || last > 2*asking {
					t.Errorf("a key with 500 requests per second was asked for %d times in a second, and in the last one %d times; want at most %d and %d", most, last, 10*asking+workers, 2*asking)
				}
				w.region.fails = 0
				w.hot(2200, 2, "/"+path, workers)
				if r := w.answered(0, "/"+path, "hot"); r.Outcome != Admit || r.Degraded {
					t.Errorf("two seconds after it decides again: %+v", r)
				}
				if w.now-begin > 30_000 {
					t.Errorf("took %d ms", w.now-begin)
				}
			})
		}
	}
}

// hot sends a request for one key every so many ms, to each worker in turn. Calls are answered at once, or after a ms.
func (w *world) hot(d, every lease.Millis, path string, workers int) {
	for end := w.now + d; w.now < end; w.millisecond(1) {
		if w.now%every == 0 {
			worker := int(w.now/every) % workers
			r := w.answered(worker, path, "hot")
			if r.Outcome == Wait {
				w.t.Fatalf("at %d a request waits though its call was answered", w.now)
			}
			w.workers[worker].End(w.now, r)
		}
	}
}
