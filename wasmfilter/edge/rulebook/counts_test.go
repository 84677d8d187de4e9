package rulebook

import (
	"reflect"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/shed"
	"github.com/weirlimit/weir/internal/wire"
)

// A decision of a shed rule is like one of another rule, with a class; each has a number of its own.
func TestShedDecisions(t *testing.T) {
	seen := map[Decision]bool{}
	for c := range shed.Class(shed.Classes) {
		for i, want := range []Decision{Allowed, Denied, ShadowAllowed, ShadowDenied} {
			d := Shed(c, i%2 == 1, i >= 2)
			if like, class, ok := d.ByShed(); like != want || class != c || !ok || d <= FullDenied || d >= Decisions || seen[d] {
				t.Errorf("class %v, %d: decision %d is like %d, of class %v, %v", c, want, d, like, class, ok)
			}
			seen[d] = true
		}
	}
	if like, _, ok := FullDenied.ByShed(); like != FullDenied || ok {
		t.Errorf("a decision of another rule is like %d, by a shed rule: %v", like, ok)
	}
}

// What a report states of a rule: its overrides and classes included, and rates of late.
func TestUses(t *testing.T) {
	b, ps := policies(t, `{"name":"a","key":[],"limit":"9/1m","overrides":[{"name":"gold","when":{"path":"/g"},"limit":"5/1h"}]},
		{"name":"idle","key":[],"limit":"9/1m"},{"name":"trial","mode":"shadow","key":[],"limit":"5/1m"}`)
	a, gold, trial := &ps.ByRule[0][0].Counts.Counts, &ps.ByRule[0][1].Counts.Counts, &ps.ByRule[2][0].Counts.Counts
	for now, c := range []struct {
		at    lease.Millis
		do    func()
		rates [2]uint64 // of a: admitted and denied, in thousandths a second
	}{
		{10_000, func() {
			for d := range Decisions {
				a.Decided[d]++
			}
			a.MissingKey, gold.Decided[Allowed], gold.Decided[Denied], trial.Decided[ShadowDenied] = 3, 10, 20, 4
		}, [2]uint64{}},
		{12_000, func() { a.Decided[Allowed] += 100; gold.Decided[Denied] += 4 }, [2]uint64{50_000, 2_000}},
		{13_000, func() { a.Decided[FailedOpen] += 10; gold.Decided[LocalDenied] += 4 }, [2]uint64{30_000, 3_000}},
		{13_000, func() {}, [2]uint64{}},
		{17_999, func() { a.Decided[FullAllowed] += 4999; a.Decided[FullDenied] += 4999 }, [2]uint64{1_000_000, 1_000_000}},
		{22_999, func() { a.Decided[FullAllowed] += 5 }, [2]uint64{}}, // the last call is long ago
	} {
		c.do()
		uses := b.Uses([]wire.RuleUse{{Rule: "before"}}, c.at)
		if len(uses) != 3 || uses[0].Rule != "before" || uses[1].Rule != "a" || uses[2].Rule != "trial" || uses[2].ShadowDenied != 4 {
			t.Fatalf("%d: uses %+v", now, uses)
		}
		if u := uses[1]; u.AdmittedRate != c.rates[0] || u.DeniedRate != c.rates[1] {
			t.Errorf("%d: rates %d and %d, want %v", now, u.AdmittedRate, u.DeniedRate, c.rates)
		}
		classes := uint64(shed.Classes)
		want := wire.RuleUse{Rule: "a", Matched: uint64(Decisions) + 30, NoKey: 3, Admitted: 4 + classes + 10, Denied: 5 + classes + 20, ShadowDenied: 1 + classes, Fallback: 4, Shed: classes, ShadowAdmitted: 1 + classes}
		if now == 0 && !reflect.DeepEqual(uses[1], want) {
			t.Errorf("uses %+v, want %+v", uses[1], want)
		}
	}
}
