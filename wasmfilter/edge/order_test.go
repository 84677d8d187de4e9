package edge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
)

// Rules of which the second has one more.
const (
	fewRules  = `{"rules":[{"name":"r","key":[{"header":"x-user"}],"limit":"10000/1h","algorithm":"fixed_window","consistency":"exact"}]}`
	moreRules = `{"rules":[{"name":"r","key":[{"header":"x-user"}],"limit":"10000/1h","algorithm":"fixed_window","consistency":"exact"},` +
		`{"name":"few","key":[],"match":{"path":"/few"},"limit":"5/1m","algorithm":"fixed_window","consistency":"CONSISTENCY","on_failure":"ON_FAILURE"}]}`
)

// twoReplicas is a PoP before two replicas with rules of two revisions.
func twoReplicas(t *testing.T, old, fresh string, oldRevision, freshRevision uint64) *world {
	w := newWorld(t, 2, old)
	w.region.use(w.region.set.Dated(oldRevision))
	w.others = []*region{newRegion(t, mustRules(t, fresh).Dated(freshRevision))}
	return w
}

// serveFor sends a request every 100 ms for so long, and answers all calls.
func (w *world) serveFor(d lease.Millis, path string) (admitted int) {
	for end, i := w.now+d, 0; w.now < end; i++ {
		w.pass(100)
		w.settle()
		if w.admit(i%len(w.workers), path, fmt.Sprint("user-", i%3)) {
			admitted++
		}
	}
	return admitted
}

func moreRulesOf(consistency, onFailure string) string {
	return strings.NewReplacer("CONSISTENCY", consistency, "ON_FAILURE", onFailure).Replace(moreRules)
}

// A rule that only one of two replicas has holds all the same, whatever its on_failure:
// the other one is not away, it has other rules.
func TestRuleThatOneReplicaHas(t *testing.T) {
	for _, consistency := range []string{"exact", "leased"} {
		for _, onFailure := range []string{"allow", "deny", "local"} {
			t.Run(consistency+" "+onFailure, func(t *testing.T) {
				w := twoReplicas(t, fewRules, moreRulesOf(consistency, onFailure), 5, 6)
				w.serveFor(10_000, "/")
				w.pass(60_000 - lease.Millis(w.wall()/1000%60_000)) // to the begin of a window
				w.settle()
				if n := w.serveFor(60_000, "/few"); n < 5 || n > 10 {
					t.Errorf("%d admitted of 5 per minute, want 5 and at most as many again", n)
				}
				w.others = nil // the one that has it ends, and the other stays
				if n := w.serveFor(60_000, "/few"); n < 5 || n > 5+len(w.workers) {
					t.Errorf("%d admitted of 5 per minute where no replica has the rule, want this PoP's share", n)
				}
			})
		}
	}
}
