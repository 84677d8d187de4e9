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
// not ready for as long as the first one runs.
func TestRulesInStore(t *testing.T) {
	dir := t.TempDir()
	program := Program{Name: "weir-test", Above: &Above{Region: "eu"}}
	begin := func(t *testing.T, state string) *Tier {
		return runBeside(t, storing(t, dir, state), program, slog.New(slog.DiscardHandler))
	}
	var kept versions.Version
	t.Run("first", func(t *testing.T) {
		first := begin(t, "state")
		refused(t, first, "no rules yet")
		d, err := versions.Parse("rules", []byte("rules: [{ name: a, key: [], limit: 10/1m }]\n"))
		if err != nil {
			t.Fatal(err)
		}
		if kept, err = first.rules.store.Apply(t.Context(), d, versions.Change{Who: "ann", Why: "begin"}); err != nil {
			t.Fatal(err)
		}
		if behind, err := first.rules.store.InForce(t.Context(), kept); err != nil || len(behind) > 0 {
			t.Errorf("%v, %v", behind, err)
		}
		refused(t, first, "")
		if got := rule.Number(first.rules.revision()); got != kept.Revision {
			t.Errorf("revision %d, want %d", got, kept.Revision)
		}
		second := begin(t, "state-2")
		refused(t, second, "is in use by process")
	})
	again := begin(t, "state")
	refused(t, again, "")
	if got := rule.Number(again.rules.revision()); got != kept.Revision {
		t.Errorf("revision %d after another start, want %d", got, kept.Revision)
	}
}

// One that waits takes over when the other one ends.
func TestStoreTakenOver(t *testing.T) {
	dir := t.TempDir()
	program := Program{Name: "weir-test", Above: &Above{Region: "eu"}}
	var second *Tier
	t.Run("both", func(inner *testing.T) {
		first := runBeside(inner, storing(t, dir, "state"), program, slog.New(slog.DiscardHandler))
		d, err := versions.Parse("rules", []byte("rules: [{ name: a, key: [], limit: 10/1m }]\n"))
		if err == nil {
			_, err = first.rules.store.Apply(t.Context(), d, versions.Change{Who: "ann", Why: "begin"})
		}
		if err != nil {
			t.Fatal(err)
		}
		second = runBeside(t, storing(t, dir, "state-2"), program, slog.New(slog.DiscardHandler))
		refused(t, second, "is in use by process")
	})
	refused(t, second, "")
}

// Several replicas would each have rules of their own.
func TestStoreReplicas(t *testing.T) {
	cfg := storing(t, t.TempDir(), "state")
	cfg.Replicas = 2
	tier := runBeside(t, cfg, Program{Name: "weir-test", Above: &Above{Region: "eu"}}, slog.New(slog.DiscardHandler))
	refused(t, tier, "rules: store: keeps the rules on the disk of one replica")
	for text, want := range map[string]string{"store:eu": "something behind store:", "store:": ""} {
		cfg.Rules = text
		if err := cfg.checkRules(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
