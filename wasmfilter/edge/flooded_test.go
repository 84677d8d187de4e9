package edge

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// A key that is flooded stays denied when the region goes away, at any moment, also
// where units trickle back and every reply grants some. What the region reported was
// left is admitted, and no more.
func TestFloodedKeyStaysDenied(t *testing.T) {
	const flooded = `{"rules":[{"name":"r","key":[{"header":"x-user"}],"limit":%q,"algorithm":%q,"consistency":%q,"on_failure":"allow"}]}`
	for _, algorithm := range []string{"token_bucket", "sliding_window", "sliding_log"} {
		for _, rate := range []string{"100/1s", "10/1s", "100/10s", "100/1m"} {
			for _, consistency := range []string{"leased", "exact"} {
				t.Run(algorithm+" "+rate+" "+consistency, func(t *testing.T) {
					for phase := range 10 {
						w := newWorld(t, 2, fmt.Sprintf(flooded, rate, algorithm, consistency))
						w.flood(2500+phase*23, (*world).settle)
						anew := int(w.region.set.Limit(0, 0).Peek(w.region.counters["r/0/ann"].State, w.wall(), 0).Reset / limit.Millisecond)
						if admitted := w.flood(min(anew*7/10, 2000), (*world).cut); admitted > 15 {
							t.Errorf("phase %d: %d admitted while the region was away", phase, admitted)
						}
					}
				})
			}
		}
	}
}

// One refusal is enough: whoever was refused stays so, even if nobody asked after it.
func TestOneRefusalIsRemembered(t *testing.T) {
	w := newWorld(t, 2, refills)
	w.spend()
	if r := w.request(0, "/", "ann"); r.Outcome != Deny || len(w.calls) > 0 {
		t.Fatalf("outcome %v, %d calls, want it denied by what is known", r.Outcome, len(w.calls))
	}
	w.now++
	writes := w.store.sets
	if r := w.request(1, "/", "ann"); r.Outcome != Deny || w.store.sets != writes {
		t.Fatalf("outcome %v, %d writes, want it denied and the first refusal alone written", r.Outcome, w.store.sets-writes)
	}
	w.pass(2000) // what is left of the denial is that it is remembered
	for user, stays := range map[string]bool{"ann": true, "bob": false} {
		r := w.request(1, "/", user)
		w.cut()
		if stays && (r.Outcome != Deny || r.Degraded) || !stays && (r.Outcome != Admit || !r.Degraded) {
			t.Errorf("%s: outcome %v, degraded %v", user, r.Outcome, r.Degraded)
		}
	}
}

// What is refused while the region is away refuses no cheaper request that may pass.
func TestRememberedRefusalHidesNoUnits(t *testing.T) {
	w := newWorld(t, 1, refills)
	x := w.workers[0]
	p := &x.rules.inForce.byRule[0][0]
	h := &hit{policy: p, key: table.Key{Hash: 42}, cost: 5}
	x.accounts.change(w.now, p, h.key, func(e *table.Entry) { e.Asked, e.Refused, e.Left, e.Reset = w.now, true, 3, w.now+9000 })
	if v := x.decider.fail(w.now, h); v != lease.Refuse || h.decision != Denied {
		t.Fatalf("a request of 5 where 3 were left: verdict %v, %v", v, h.decision)
	}
	if p.denials.refuses(42, w.now, 5) == nil || p.denials.refuses(42, w.now, 3) != nil {
		t.Error("want requests of 5 refused from the cache and those of 3 not")
	}
}

// A refusal by rules of before shows nothing about those in force.
func TestNewRulesVoidRefusals(t *testing.T) {
	w := newWorld(t, 1, refills)
	w.spend()
	w.request(0, "/", "ann")
	w.region.set = mustRules(t, `{"rules":[{"name":"r","key":[{"header":"x-user"}],"limit":"9/1m","on_failure":"allow"}]}`)
	w.pass(300)
	w.admit(0, "/", "bob") // its reply shows the version
	r := w.request(0, "/", "ann")
	w.cut()
	if r.Outcome != Admit || !r.Degraded {
		t.Errorf("outcome %v, degraded %v, want on_failure", r.Outcome, r.Degraded)
	}
}

// A refusal that cannot be written is a refusal all the same.
func TestRefusalThatIsNotWritten(t *testing.T) {
	w := newWorld(t, 1, refills)
	w.spend()
	w.store.deaf = true
	if r := w.request(0, "/", "ann"); r.Outcome != Deny || r.Degraded {
		t.Errorf("outcome %v, degraded %v, want it denied by what is known", r.Outcome, r.Degraded)
	}
}

const refills = `{"rules":[{"name":"r","key":[{"header":"x-user"}],"limit":"8/1m","on_failure":"allow"}]}`

// spend spends a user's 8 units, one by one.
func (w *world) spend() {
	w.t.Helper()
	for i := range 8 {
		if w.now += 10; !w.admit(0, "/", "ann") {
			w.t.Fatalf("request %d of 8 was refused", i+1)
		}
	}
}

// flood sends a request of one user to the workers in turn every 3 ms, for so many
// ms, and counts those admitted by on_failure.
func (w *world) flood(long int, calls func(*world)) (open int) {
	for i := range long / 3 {
		w.now += 3
		if i%33 == 0 {
			w.pass(1)
		}
		r := w.request(i%len(w.workers), "/", "ann")
		calls(w)
		if r.Outcome == Admit && r.Degraded {
			open++
		}
	}
	return open
}
