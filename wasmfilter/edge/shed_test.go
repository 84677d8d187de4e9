package edge

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/shed"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
)

const shedAndLimit = `{"rules":[{"name":"overload","shed":{"capacity":1}},
	{"name":"user","key":[{"header":"x-user"}],"limit":"3/1h","algorithm":"fixed_window"%s}]}`

// What a shed rule rejects costs nothing on others, and its own denials count apart.
func TestShedCostsNothing(t *testing.T) {
	for _, scope := range []string{"", `,"scope":"pop"`} {
		w := newWorld(t, 1, fmt.Sprintf(shedAndLimit, scope))
		first := w.answered(0, "/", "ann")
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
			r := w.answered(0, "/", "ann")
			if admitted := r.Outcome == Admit; admitted != (i < 2) {
				t.Errorf("%s: request %d after one: admitted %v", scope, i, admitted)
			}
			w.workers[0].End(w.now, r)
		}
		if n := w.workers[0].rules.CountsOf("overload").Decided[rulebook.Shed(shed.Normal, true, false)]; n != 20 {
			t.Errorf("%d denials are counted", n)
		}
		uses := w.workers[0].rules.Uses(nil, w.now)
		if u := uses[0]; u.Rule != "overload" || u.Denied != 20 || u.Admitted != 3 {
			t.Errorf("the use of the rule: %+v", u)
		}
	}
}

// A shadow rule rejects none, and says what it would do.
func TestShadowShed(t *testing.T) {
	w := newWorld(t, 1, strings.Replace(fmt.Sprintf(shedAndLimit, ""), `"shed"`, `"mode":"shadow","shed"`, 1))
	for i := range 3 {
		if r := w.answered(0, "/", "ann"); r.Outcome != Admit || slices.Equal(r.WouldDeny, []string{"overload"}) != (i > 0) {
			t.Errorf("request %d: outcome %v, would be rejected by %v", i, r.Outcome, r.WouldDeny)
		}
	}
}

// A request that waits for the region counts, and stops when it is reset, or rejected by a limit.
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
		r = w.answered(0, "/", "cat")
		if r.Shed != nil {
			t.Fatal("what is over counts")
		}
		if r.Outcome == Deny && r.Holds() {
			t.Error("a limit rejected it, and it counts")
		}
		w.workers[0].End(w.now, r)
	}
	if r.Outcome != Deny {
		t.Error("the fourth of a key is not rejected by its limit")
	}
}
