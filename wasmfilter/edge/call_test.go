package edge

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/test/kit/fatal"
)

const goodTrace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// hostileRules are rules that let requests ask for much: high costs, long keys of
// all parts, and more rules for one request than a group may have.
func hostileRules() string {
	var b strings.Builder
	b.WriteString(`{"rules":[
		{"name":"sum","match":{"path":{"prefix":"/sum"}},"key":[],"limit":"4294967295/24h","algorithm":"fixed_window","consistency":"exact",
			"cost":{"header":"x-cost","max":4294967295}},
		{"name":"slots","match":{"path":{"prefix":"/slots"}},"key":[],"limit":16777215,"algorithm":"concurrency","cost":{"header":"x-cost","max":16777215}},
		{"name":"long","match":{"path":{"prefix":"/long"}},"limit":"10/24h","algorithm":"fixed_window",
			"key":[{"header":"a"},{"header":"a"},{"header":"a"},{"header":"a"},{"header":"a"},{"header":"a"},{"header":"a"},{"header":"x-user"}]}`)
	for i := range 150 {
		fmt.Fprintf(&b, `,{"name":"many-%d","match":{"path":"/many"},"key":[{"header":"x-user"}],"limit":"1000/24h"}`, i)
	}
	b.WriteString("]}")
	return b.String()
}

// Whatever requests come, no call exceeds a bound of the region, which would warn of it.
func TestCallsKeepWithinBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, 1, hostileRules())
		x := w.workers[0]
		trace := ""
		x.Trace = func() string { return trace }
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			path := rapid.SampledFrom([]string{"/sum", "/slots", "/long", "/many", "/sum/slots"}).Draw(t, "path")
			cost := rapid.SampledFrom([]string{"", "1", "4294967295", "4294967294", "99999999999999999999", "-1", "x", "16777215"}).Draw(t, "cost")
			trace = rapid.SampledFrom([]string{"", goodTrace, "\xff", strings.Repeat("\xff", 60_000), goodTrace + ","}).Draw(t, "trace")
			requests := rapid.SampledFrom([]int{1, 3, 600}).Draw(t, "requests")
			if path == "/many" { // each of them 150 wants
				requests = min(requests, 8)
			}
			for n := range requests {
				w.sends(0, &Request{}, ":path", path, ":method", "GET", "x-user", fmt.Sprint(n), "x-cost", cost, "a", strings.Repeat("\\", 256))
			}
			for len(w.calls) > 0 && rapid.Bool().Draw(t, "answer") {
				w.answer(0)
			}
			w.pass(100)
		}
		w.settle()
		for trace := range w.region.traces {
			if trace != "" && trace != goodTrace {
				t.Fatalf("traceparent %.80q", trace)
			}
		}
	})
}

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
				most, last := 0, 0
				for second := range 20 {
					before := w.region.wants
					w.hot(1000, "/"+path)
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
				w.hot(2200, "/"+path)
				if r := w.answered(0, "/"+path, "hot"); r.Outcome != Admit || r.Degraded {
					t.Errorf("two seconds after it decides again: %+v", r)
				}
			})
		}
	}
}

// A key over its exact limit is asked for ten times a second, however many workers have requests for it.
func TestFloodOfAnExactRule(t *testing.T) {
	w := newWorld(t, 8, `{"rules":[{"name":"a","key":[{"header":"x-user"}],"limit":"5/1s","algorithm":"token_bucket"}]}`)
	var all []*Request
	flood := func(d lease.Millis) (wants, admitted int) {
		wants, all = w.region.wants, nil
		for end := w.now + d; w.now < end; w.millisecond(10) {
			for worker := range w.workers {
				all = append(all, w.request(worker, "/", "hot"))
			}
		}
		return w.region.wants - wants, admittedOf(all)
	}
	flood(2000)
	if asks, admitted := flood(10_000); asks > 105 || admitted < 49 || admitted > 51 {
		t.Errorf("%d asks in 10 s, %d of 50 admitted", asks, admitted)
	}
}

// hot sends a request for one key every other ms, to each worker in turn. Calls are answered at once, or after a ms.
func (w *world) hot(d lease.Millis, path string) {
	for end := w.now + d; w.now < end; w.millisecond(1) {
		if w.now%2 == 0 {
			worker := int(w.now/2) % len(w.workers)
			r := w.answered(worker, path, "hot")
			if r.Outcome == Wait {
				w.t.Fatalf("at %d a request waits though its call was answered", w.now)
			}
			w.workers[worker].End(w.now, r)
		}
	}
}

// After its counter was reset a key is rejected for a second at most, by all workers: what they remember of rejections
// ends. Requests come all the time.
func TestResetEndsRejections(t *testing.T) {
	for _, algorithm := range []string{"token_bucket", "fixed_window", "sliding_window", "sliding_log"} {
		for _, consistency := range []string{"exact", "leased", "optimistic"} {
			t.Run(algorithm+" "+consistency, func(t *testing.T) {
				w := newWorld(t, 2, fmt.Sprintf(`{"rules":[{"name":"a","key":[{"header":"x-user"}],"limit":"1000/30d","algorithm":%q,"consistency":%q}]}`, algorithm, consistency))
				for range 40 {
					w.pass(10)
					w.admit(0, "/", "ann") // who has a lease by now
				}
				for round := range lease.Millis(4) {
					for w.admit(0, "/", "ann") || w.admit(1, "/", "ann") {
					}
					for range 250 + 14*round {
						w.pass(10)
						for i := range 2 {
							w.admit(i, "/", "ann")
						}
					}
					if w.admit(0, "/", "ann") || w.admit(1, "/", "ann") {
						t.Fatal("admitted, though the limit is spent")
					}
					w.region.wall = w.wall()
					fatal.Get(w.region.Reset(t.Context(), "a", []byte("ann")))(t)
					reset := w.now
					for i := range 2 {
						for !w.admit(i, "/", "ann") {
							if w.pass(10); w.now-reset > lease.Millis(lease.LongestAskAfter/limit.Millisecond)+100 {
								t.Fatalf("round %d: worker %d rejects %d ms after the reset", round, i, w.now-reset)
							}
						}
					}
				}
			})
		}
	}
}

// Without a secret a rule that hashes keys does not count in plain: on_failure decides. A PoP fetches the secret with the rules, and a
// changed one with the next reply that names another; all workers use it, and no key is ever sent or kept in plain.
func TestSecret(t *testing.T) {
	w := newWorld(t, 2, `{"rules":[{"name":"user","match":{"path":{"prefix":"/v1/"}},"key":[{"header":"x-user"}],"hash":true,
		"limit":"3/1h","algorithm":"fixed_window","on_failure":"deny"}]}`)
	if r := w.request(0, "/v1/a", "hunter2"); r.Outcome != Deny || !r.Degraded || len(w.calls) > 0 || len(r.DeniedKey()) > 0 {
		t.Errorf("without a secret: outcome %v, degraded %v, %d calls, the access log gets the key %q", r.Outcome, r.Degraded, len(w.calls), r.DeniedKey())
	}
	w.region.use(w.region.set, rule.Secret{1})
	w.passes(6000)
	w.pass(200)
	admitted := func() (n int) {
		for i := range 6 {
			if w.admit(i%2, "/v1/a", "hunter2") {
				n++
			}
		}
		return n
	}
	if n := admitted(); n != 3 {
		t.Errorf("admitted %d of 3", n)
	}
	if key := string(w.request(0, "/v1/a", "hunter2").DeniedKey()); !strings.HasPrefix(key, `\h`) {
		t.Errorf("the access log gets the key %q", key)
	}
	w.region.use(w.region.set, rule.Secret{2})
	w.admit(0, "/v1/a", "other") // its reply names the new secret
	w.settle()
	w.passes(1000)
	if n := admitted(); n != 3 {
		t.Errorf("admitted %d of 3 under another secret", n)
	}
	if len(w.region.keys) < 3 { // hunter2 under each secret, and other
		t.Errorf("keys %v", w.region.keys)
	}
	for key := range w.region.keys {
		if !strings.HasPrefix(key, `user/\h`) || strings.Contains(key, "hunter2") {
			t.Errorf("key %s", key)
		}
	}
	for key, value := range w.store.Values {
		if strings.Contains(string(value.Data), "hunter2") {
			t.Errorf("the key is in plain in the record %q", key)
		}
	}
}
