package edge

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/wasmfilter/edge/table/tabletest"
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
				w.region.fails = func(*wire.Want) lease.Status { return status }
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
				w.region.fails = nil
				w.hot(2200, 2, "/"+path, workers)
				r := w.request(0, "/"+path, "hot")
				if w.settle(); r.Outcome != Admit || r.Degraded {
					t.Errorf("two seconds after it decides again: %+v", r)
				}
				if w.now-begin > 30_000 {
					t.Errorf("took %d ms", w.now-begin)
				}
			})
		}
	}
}

// hot sends a request for one key every so many ms, to each worker in turn. Calls are
// answered after a ms.
func (w *world) hot(d, every lease.Millis, path string, workers int) {
	for end := w.now + d; w.now < end; w.now++ {
		if w.now%every == 0 {
			r := w.request(int(w.now/every)%workers, path, "hot")
			if w.settle(); r.Outcome == Wait {
				w.t.Fatalf("at %d a request waits though its call was answered", w.now)
			}
			if r.Outcome == Admit {
				w.admittedHot++
			}
			w.workers[int(w.now/every)%workers].End(w.now, r)
		}
		if w.now%100 == 0 {
			for _, x := range w.workers {
				x.Tick(w.now, w.wall())
			}
			w.collect()
			w.settle()
		}
	}
}

// An outage of half a minute, with many keys that are alive: asks are no more frequent in
// it than before, and its end is no stampede.
func TestOutageHasNoStampede(t *testing.T) {
	if testing.Short() {
		t.Skip("runs in make test-long")
	}
	const keys, workers = 10_000, 2
	w := newWorld(t, workers, `{"rules":[{"name":"r","key":[{"header":"x-user"}],"limit":"1000/1m","algorithm":"sliding_window"}]}`)
	w.config.PagesLog2, w.store, w.workers = 10, tabletest.New(), nil
	for range workers {
		w.start()
	}
	w.collect()
	w.calls = nil
	type load struct{ calls, wants int }
	next := 0
	second := func() load {
		before := load{w.region.calls, w.region.wants}
		for range 1000 {
			for range keys / 2000 { // each key has a request in two seconds
				next = (next + 7919) % keys
				w.request(next%workers, "/", fmt.Sprint(next))
			}
			w.now++
			for _, f := range w.calls { // a ms away
				f.worker.Reply(w.now, f.call.ID, w.region.serve(w.now, f.call))
			}
			w.calls = w.calls[:0]
			if w.now%100 == 0 {
				for _, x := range w.workers {
					x.Tick(w.now, w.wall())
				}
			}
			w.collect()
		}
		return load{w.region.calls - before.calls, w.region.wants - before.wants}
	}
	seconds := func(n int) (mean, most load) {
		for range n {
			l := second()
			mean.calls, mean.wants = mean.calls+l.calls, mean.wants+l.wants
			most.calls, most.wants = max(most.calls, l.calls), max(most.wants, l.wants)
		}
		return load{mean.calls / n, mean.wants / n}, most
	}
	seconds(20) // from nothing
	before, _ := seconds(20)
	w.region.fails = func(*wire.Want) lease.Status { return lease.Unavailable }
	during, worst := seconds(30)
	w.region.fails = nil
	recovery, _ := seconds(3)
	_, peak := seconds(3)
	after, _ := seconds(20)
	t.Logf("per second: before %+v, during %+v (at most %+v), first 3 s after %+v, at most %+v in the next, later %+v", before, during, worst, recovery, peak, after)
	if before.calls < 300 || before.wants < 1000 {
		t.Errorf("before: %+v, want a load that there is something to compare with", before)
	}
	for _, l := range []load{during, worst, recovery, peak, after} {
		if l.calls > 2*before.calls || l.wants > 3*before.wants {
			t.Errorf("%+v per second, more than twice the calls or three times the wants of the %+v before", l, before)
		}
	}
}
