package e2e

import (
	"testing"

	"github.com/weirlimit/weir/internal/ruleset/rulefile"
)

// The rules of every scenario are rules, so that a mistake in them shows here and
// not as a riddle in the scenario.
func TestRulesOfScenarios(t *testing.T) {
	for name, rules := range map[string]string{
		"two PoPs": twoPoPsRules,
		"faults":   faultRules,
		"restarts": restartRules,
		"panics":   panicRules,
		"changes":  quota(10),
		"bundled":  bundled,
		"memory":   memoryRules,
	} {
		if _, err := rulefile.Parse(name, []byte(rules)); err != nil {
			t.Error(err)
		}
	}
}
