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
	w.region.revision = oldRevision
	w.others = []*region{newRegion(t, mustRules(t, fresh))}
	w.others[0].revision = freshRevision
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

// A PoP before two replicas with different rules takes the newer ones, once, and stays
// with them.
func TestNoGoingToAndFro(t *testing.T) {
	for name, c := range map[string]struct {
		revisions [2]uint64
		newer     bool // the second ones win
	}{
		"the other is newer":           {[2]uint64{5, 6}, true},
		"the other is older":           {[2]uint64{6, 5}, false},
		"the other has no order":       {[2]uint64{6, 0}, false},
		"the other alone has an order": {[2]uint64{0, 5}, true},
		"the same revision":            {[2]uint64{5, 5}, mustRules(t, moreRulesOf("exact", "allow")).Version > mustRules(t, fewRules).Version},
	} {
		t.Run(name, func(t *testing.T) {
			w := twoReplicas(t, fewRules, moreRulesOf("exact", "allow"), c.revisions[0], c.revisions[1])
			w.serveFor(10_000, "/")
			since, want := w.workers[0].rules.Since, w.region
			if c.newer {
				want = w.others[0]
			}
			sent := w.region.sent + w.others[0].sent
			w.serveFor(180_000, "/")
			for i, x := range w.workers {
				if x.RulesVersion() != want.set.Version || x.rules.Since != since {
					t.Errorf("worker %d has rules %.8s, that changed %d ms later, want %.8s", i, x.RulesVersion(), x.rules.Since-since, want.set.Version)
				}
			}
			if n := w.region.sent + w.others[0].sent - sent; n > 0 {
				t.Errorf("rules were sent %d times in 180 s, want none", n)
			}
			if w.region.last.RulesRevision != want.revision {
				t.Errorf("the PoP reports revision %d, want %d", w.region.last.RulesRevision, want.revision)
			}
		})
	}
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

// Rules that cannot be read are fetched once per version and minute, by all workers
// together, and the error stays until there are others.
func TestSpoiltRulesAreFetchedOnceAMinute(t *testing.T) {
	w := newWorld(t, 3, fewRules)
	w.region.revision = 5
	w.serveFor(10_000, "/")
	w.region.spoilt, w.region.revision = true, 6
	if w.serveFor(59_000, "/"); w.region.sent > 1 {
		t.Errorf("sent %d times within a minute", w.region.sent)
	}
	if w.serveFor(180_000, "/"); w.region.sent < 3 || w.region.sent > 5 {
		t.Errorf("sent %d times in 4 minutes", w.region.sent)
	}
	reported := false
	for i, x := range w.workers {
		reported = reported || x.ConfigError() != ""
		if x.RulesVersion() != w.region.set.Version {
			t.Errorf("worker %d: rules %.8s are in force in place of the good ones", i, x.RulesVersion())
		}
	}
	if !reported {
		t.Error("no worker has a config error")
	}
	w.region.spoilt, w.region.revision = false, 5 // the operator takes them back
	w.serveFor(15_000, "/")
	for i, x := range w.workers {
		if x.ConfigError() != "" {
			t.Errorf("worker %d: config error %q, and nobody has these rules any more", i, x.ConfigError())
		}
	}
	w.region.set, w.region.revision = mustRules(t, fmtRule("7/1h")), 7
	w.serveFor(1000, "/")
	for i, x := range w.workers {
		if x.RulesVersion() != w.region.set.Version || x.ConfigError() != "" {
			t.Errorf("worker %d: rules %.8s, config error %q", i, x.RulesVersion(), x.ConfigError())
		}
	}
}

// Whatever two workers fetch at the same time, the newer rules stay in force.
func TestRacingFetches(t *testing.T) {
	w := newWorld(t, 2, fewRules)
	w.region.revision = 5
	w.serveFor(1000, "/")
	older, newer := mustRules(t, fmtRule("7/1h")), mustRules(t, fmtRule("8/1h"))
	raced := false
	w.store.between = func() {
		if !raced {
			raced = true
			w.workers[1].rules.Offer(w.now, newer.Version, 7, newer.Encode())
		}
	}
	w.workers[0].rules.Offer(w.now, older.Version, 6, older.Encode())
	w.store.between = nil
	w.pass(200)
	for i, x := range w.workers {
		if x.RulesVersion() != newer.Version || x.rules.Revision != 7 {
			t.Errorf("worker %d: rules %.8s of revision %d, want %.8s of 7", i, x.RulesVersion(), x.rules.Revision, newer.Version)
		}
	}
}
