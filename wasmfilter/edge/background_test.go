package edge

import (
	"testing"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table/tabletest"
)

// A grant is written however often other workers are faster: its units are not lost.
func TestGrantOutlastsRaces(t *testing.T) {
	w := newWorld(t, 1, userRule)
	w.workers[0].End(w.now, w.request(0, "/v1/", "ann"))
	races := 100
	w.store.Between = func() {
		for key, v := range w.store.Values {
			if races > 0 {
				w.store.Version++
				w.store.Values[key] = tabletest.Value{Data: v.Data, Version: w.store.Version}
			}
		}
		races--
	}
	w.settle()
	if r := w.request(0, "/v1/", "ann"); r.Outcome != Admit || races > 0 {
		t.Errorf("outcome %v, %d races are left", r.Outcome, races)
	}
}

func fmtRule(limit string) string {
	return `{"rules":[{"name":"r","key":[{"header":"x-user"}],"limit":"` + limit + `","algorithm":"fixed_window"}]}`
}

// Before there are rules, before_rules decides; with the region away it goes on so.
func TestBeforeRules(t *testing.T) {
	for _, deny := range []bool{false, true} {
		w := &world{t: t, now: 1000, store: tabletest.New(), region: newRegion(t, mustRules(t, userRule))}
		w.config = rulebook.Config{DenyBeforeRules: deny, RegionCluster: "region", PagesLog2: 4, Hash: 1}
		x := w.start()
		w.collect()
		var r Request
		x.Match(&rule.Request{})
		x.Decide(w.now, &r)
		if (r.Outcome == Deny) != deny || deny && r.Status != 503 {
			t.Errorf("deny %v: outcome %v, status %d", deny, r.Outcome, r.Status)
		}
		w.settle()
		if x.RulesVersion() == "" {
			t.Error("the rules were not fetched")
		}
	}
}

// A worker that starts anew finds rules and identity where the last one left them.
func TestWorkerReload(t *testing.T) {
	w := newWorld(t, 1, userRule)
	w.admit(0, "/v1/", "ann")
	old := w.workers[0]
	w.workers = nil
	w.now += 1000
	x := w.start()
	w.collect()
	w.calls = nil
	if x.pop.Holder != old.pop.Holder || x.pop.Seed != old.pop.Seed || x.RulesVersion() != old.RulesVersion() {
		t.Error("a new worker is of another process")
	}
	w.request(0, "/v1/", "ann")
	w.settle()
	if q := w.region.last; q.Seq != 1 || q.Worker == old.pop.Number {
		t.Errorf("the new worker's call: seq %d, worker %x like the old one's", q.Seq, q.Worker)
	}
}
