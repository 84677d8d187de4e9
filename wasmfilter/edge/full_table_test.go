package edge

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"pgregory.net/rapid"
)

// admits counts how many of some requests of a user are admitted.
func (w *world) admits(requests int, path, user string) (n int) {
	for range requests {
		if w.now++; w.admit(0, path, user) {
			n++
		}
	}
	return n
}

// While the region is away every key owes. Those of one rule that find no place are
// admitted without being noted; the others' debts and other rules' places stay.
func TestDebtsMakeRoom(t *testing.T) {
	w := newWorld(t, 1, `{"rules":[
		{"name":"a","match":{"path":"/a"},"key":[{"header":"x-user"}],"limit":"1/24h","algorithm":"fixed_window","on_failure":"allow"},
		{"name":"b","match":{"path":"/b"},"key":[{"header":"x-user"}],"limit":"5/1h","algorithm":"fixed_window","scope":"pop"}]}`)
	for i := range 2000 {
		w.request(0, "/a", fmt.Sprint("debt", i))
		w.cut(false)
	}
	for i := range 32 {
		if n := w.admits(8, "/b", fmt.Sprint("new", i)); n != 5 {
			t.Errorf("new key %d: %d admitted, want 5", i, n)
		}
	}
	w.passes(300)
	w.region.fails = lease.Denied
	for i := range 2 { // the second from the cache of denials, though the key has no place
		r, wants := w.request(0, "/a", "denied"), w.region.wants
		if w.settle(); r.Outcome != Deny || r.Degraded || i > 0 && w.region.wants != wants {
			t.Errorf("request %d of a denied key: outcome %v, degraded %v, %d wants", i, r.Outcome, r.Degraded, w.region.wants-wants)
		}
	}
	w.region.fails = 0
	w.rests()
	charged := uint64(w.charged("a"))
	if n := w.workers[0].Unreported; n+charged != 2000 || charged < 512-32 {
		t.Errorf("%d units charged and %d not reported, of 2000", charged, n)
	}
}

// Whatever makes room for whatever: no key gets more than its limit in its window, and
// what was on lease is not lost.
func TestFullTableNeverResetsAKey(t *testing.T) {
	const rules = `{"rules":[
		{"name":"pop","match":{"path":["/p","/pq","/all"]},"key":[{"header":"x-user"}],"limit":"3/24h","algorithm":%q,"scope":"pop"},
		{"name":"pop2","match":{"path":["/q","/pq","/all"]},"key":[{"header":"x-user"}],"limit":"2/24h","algorithm":%q,"scope":"pop"},
		{"name":"region","match":{"path":["/r","/all"]},"key":[{"header":"x-user"}],"limit":"3/24h","algorithm":"fixed_window","on_failure":"deny"}]}`
	limits := map[string]int{"pop": 3, "pop2": 2, "region": 3}
	rapid.Check(t, func(t *rapid.T) {
		algorithm := func() string {
			return rapid.SampledFrom([]string{"fixed_window", "sliding_window", "token_bucket"}).Draw(t, "algorithm")
		}
		w := newWorld(t, 0, fmt.Sprintf(rules, algorithm(), algorithm()))
		w.config.PagesLog2 = rapid.IntRange(0, 1).Draw(t, "pages")
		w.starts(2)
		got := map[string]int{}
		users := rapid.IntRange(30, 120).Draw(t, "users")
		for range rapid.IntRange(1, 12).Draw(t, "floods") {
			path := rapid.SampledFrom([]string{"/p", "/q", "/pq", "/r", "/all"}).Draw(t, "path")
			first, n := rapid.IntRange(0, users).Draw(t, "first"), rapid.IntRange(1, 60).Draw(t, "keys")
			for i := range n {
				user := fmt.Sprint("u", (first+i)%users)
				if r := w.answered(i%2, path, user); r.Outcome == Admit {
					r.Quotas(func(report *Quota) { got[report.Rule.Name+" "+user]++ })
					for name, most := range limits {
						if n := got[name+" "+user]; n > most {
							t.Fatalf("%s of %s: %d admitted of %d", user, name, n, most)
						}
					}
				}
			}
			w.passes(lease.Millis(rapid.SampledFrom([]int{0, 5, 200, 5000}).Draw(t, "time")))
		}
		w.rests()
		for user := range users {
			name := fmt.Sprint("u", user)
			if n := w.region.spent(w.wall(), "region", name); n != int64(got["region "+name]) {
				t.Fatalf("%s was charged %d units and admitted %d times", name, n, got["region "+name])
			}
		}
	})
}

// More keys with open requests than the table of slots has places for: those without one
// share the slots of one key, whatever on_failure is, and nothing is left of them.
func TestSlotsWithoutPlace(t *testing.T) {
	w := newWorld(t, 1, `{"rules":[{"name":"c","key":[{"header":"x-user"}],"limit":2,"algorithm":"concurrency","scope":"pop","on_failure":"allow"}]}`)
	var open []*Request
	for i := range 40_000 {
		r := w.request(0, "/", fmt.Sprint("u", i))
		if open = append(open, r); r.Outcome == Deny && r.RetryAfter != rejectedHere {
			t.Fatalf("retry after %d ms", r.RetryAfter)
		}
	}
	if n := w.workers[0].rules.CountsOf("c").Decided; n[rulebook.FullAllowed] != 2 || n[rulebook.FullDenied] < 4000 || n[rulebook.Allowed] < 28_000 {
		t.Errorf("decided %v, want 2 slots for all keys without a place", n)
	}
	for _, r := range open {
		w.workers[0].End(w.now, r)
	}
	w.rests()
	if n := w.admits(3, "/", "u1"); n != 2 {
		t.Errorf("afterwards %d of 3 open requests are admitted, want 2", n)
	}
}
