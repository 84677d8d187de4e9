package edge

import (
	"strings"
	"testing"
)

// Rules with the override gold alone, and with others around it.
const (
	goldAlone  = `{"rules":[{"name":"r","key":[{"header":"x-user"}],"limit":"1/1h","algorithm":"fixed_window","scope":"SCOPE","overrides":[{"when":{"path":"/gold"},"limit":"2/1h"}]}]}`
	goldBehind = `{"rules":[{"name":"r","key":[{"header":"x-user"}],"limit":"1/1h","algorithm":"fixed_window","scope":"SCOPE","overrides":[` +
		`{"when":{"path":"/silver"},"limit":"2/1h"},{"when":{"path":"/gold"},"limit":"3/1h"},{"when":{"path":"/iron"},"limit":"2/1h"}]}]}`
)

// An override that moves keeps its counters, in the table of the PoP and above.
func TestMovedOverrideKeepsItsCounters(t *testing.T) {
	for _, scope := range []string{"pop", "region"} {
		t.Run(scope, func(t *testing.T) {
			rules := func(text string) string { return strings.ReplaceAll(text, "SCOPE", scope) }
			w := newWorld(t, 1, rules(goldAlone))
			for i := range 3 {
				if got := w.admit(0, "/gold", "ann"); got != (i < 2) {
					t.Fatalf("gold %d: admitted %v of 2", i, got)
				}
			}
			w.region.set = mustRules(t, rules(goldBehind))
			w.pass(6000)
			w.settle()
			if w.workers[0].RulesVersion() != w.region.set.Version {
				t.Fatal("the new rules are not in force")
			}
			for i := range 3 {
				if got := w.admit(0, "/gold", "ann"); got != (i < 1) {
					t.Errorf("gold %d after the change: admitted %v, 2 of 3 were used", i, got)
				}
			}
			if !w.admit(0, "/silver", "ann") || !w.admit(0, "/", "ann") || w.admit(0, "/", "ann") {
				t.Error("other limits of the rule have counters of their own")
			}
		})
	}
}
