package daemon

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/versions"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// storing is a configuration whose rules are kept beside the state file, which has this name in dir.
func storing(t *testing.T, dir, state string) *Config {
	cfg := testConfig()
	cfg.Listen, cfg.Rules, cfg.RulesCopy, cfg.State = proc.FreeAddr(t), "store:", "auto", filepath.Join(dir, state)
	return cfg
}

// refused waits until a tier is not ready because of this.
func refused(t *testing.T, tier *Tier, want string) {
	t.Helper()
	proc.Await(t, time.Minute, "readiness", func() string {
		if got := strings.Join(tier.Ready.Reasons(), "\n"); !strings.Contains(got, want) || (want == "") != (got == "") {
			return fmt.Sprintf("not ready because of %q, want %q", got, want)
		}
		return ""
	})
}

// Rules that one process keeps come into force when they are applied, and are there when it starts again. A second one is
// not ready for as long as the first one runs, and takes over when that ends.
func TestRulesInStore(t *testing.T) {
	dir := t.TempDir()
	begin := func(t *testing.T, state string) *Tier {
		return runBeside(t, storing(t, dir, state), Program{Name: "weir-test", AggregatorCalls: &AggregatorCalls{Region: "eu"}}, slog.New(slog.DiscardHandler))
	}
	var kept versions.Version
	inForce := func(tier *Tier) {
		t.Helper()
		refused(t, tier, "")
		if got := rule.Number(tier.rules.revision()); got != kept.Revision {
			t.Errorf("revision %d, want %d", got, kept.Revision)
		}
	}
	t.Run("both", func(second *testing.T) {
		var waits *Tier
		second.Run("first", func(t *testing.T) {
			first := begin(t, "state")
			refused(t, first, "no rules yet")
			d, err := versions.Parse("rules", []byte("rules: [{ name: a, key: [], limit: 10/1m }]\n"))
			fatal.If(t, err)
			if kept, err = first.rules.store.Apply(t.Context(), d, versions.Change{Who: "ann", Why: "begin"}); err != nil {
				t.Fatal(err)
			}
			if behind, err := first.rules.store.InForce(t.Context(), kept); err != nil || len(behind) > 0 {
				t.Errorf("%v, %v", behind, err)
			}
			inForce(first)
			waits = begin(second, "state-2")
			refused(t, waits, "is in use by process")
		})
		inForce(waits)
	})
	inForce(begin(t, "state"))
}

// Several replicas would each have rules of their own.
func TestStoreReplicas(t *testing.T) {
	cfg := storing(t, t.TempDir(), "state")
	cfg.Replicas = 2
	tier := runBeside(t, cfg, Program{Name: "weir-test", AggregatorCalls: &AggregatorCalls{Region: "eu"}}, slog.New(slog.DiscardHandler))
	refused(t, tier, "rules: store: keeps the rules on the disk of one replica")
	for text, want := range map[string]string{"store:eu": "something behind store:", "store:": ""} {
		cfg.Rules = text
		if err := cfg.checkRules(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
