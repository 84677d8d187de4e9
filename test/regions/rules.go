package regions

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/internal/rulefile"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Document is the rules file of scripts that are played in one world, with equal weights.
func Document(scripts []*Script) (string, error) {
	var all []any
	for _, s := range scripts {
		for _, r := range s.Rules {
			all = append(all, r.yaml)
		}
	}
	return written("rules of the scripts", map[string]any{"regions": equalWeights(), "rules": all})
}

func equalWeights() map[string]int {
	weights := map[string]int{}
	for _, name := range Names {
		weights[name] = 1
	}
	return weights
}

// weighted is a rules file with other weights.
func weighted(document string, weights map[string]int) (string, error) {
	fields := map[string]any{}
	if err := yaml.Unmarshal([]byte(document), &fields); err != nil {
		return "", err
	}
	fields["regions"] = weights
	return written("rules with other weights", fields)
}

// limited is a rules file with another limit of a rule.
func limited(document, rule, limit string) (string, error) {
	fields := map[string]any{}
	if err := yaml.Unmarshal([]byte(document), &fields); err != nil {
		return "", err
	}
	all, _ := fields["rules"].([]any)
	for _, r := range all {
		if r, _ := r.(map[string]any); r != nil && r["name"] == rule {
			r["limit"] = limit
			return written("rules with another limit", fields)
		}
	}
	return "", fmt.Errorf("there is no rule %q", rule)
}

// written is a rules file with these fields, which has no mistake.
func written(name string, fields map[string]any) (string, error) {
	text, err := yaml.Marshal(fields)
	if err != nil {
		return "", err
	}
	_, err = rulefile.Parse(name, text)
	return string(text), err
}

// begin has the rules in force with which a script begins, everywhere.
func (w *World) begin(s *Script) {
	w.t.Helper()
	rules, err := weighted(w.begun, s.Weights)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	if rules != w.rules {
		w.awaitRules(w.apply(rules, s.Name))
	}
}

// limit applies another limit of a rule.
func (w *World) limit(rule, limit string) {
	w.t.Helper()
	rules, err := limited(w.rules, rule, limit)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	w.apply(rules, limit)
}

// apply puts rules into Consul, as a person does, and returns their revision.
func (w *World) apply(rules, reason string) (revision float64) {
	w.t.Helper()
	file := proc.WriteFile(w.t, filepath.Join(w.dir, "rules.yaml"), rules)
	cmd := exec.Command(proc.Built(w.t, "bin/weir", "build"), "apply", file, "--reason", reason,
		"--consul", w.Regions[0].Consul.Leader().Addr)
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
	}
	var version int
	if _, err := fmt.Sscanf(string(out), "version %d is in force: revision %f", &version, &revision); err != nil {
		w.t.Fatalf("weir apply printed %q: %v", out, err)
	}
	w.rules = rules
	return revision
}

// awaitRules waits until every program and every PoP has rules of a revision. One worker of a PoP
// fetches them; the others take them over at their next tick, every 100 ms, which nothing shows.
func (w *World) awaitRules(revision float64) {
	w.t.Helper()
	await := func(name string, has func() float64) {
		proc.Await(w.t, time.Minute, "the rules at "+name, func() string {
			if got := has(); got != revision {
				return fmt.Sprintf("revision %.0f, want %.0f", got, revision)
			}
			return ""
		})
	}
	programs := slices.Clone(w.Aggregators)
	for _, r := range w.Regions {
		programs = append(programs, r.Replicas...)
		for _, p := range r.PoPs {
			const stat = "wasmcustom.weir.rules_revision"
			await(p.Name, func() float64 { return float64(p.Stats(stat)[stat]) })
		}
	}
	for _, p := range programs {
		await(p.Name, func() float64 { return p.Metrics()["weir_rules_revision"] })
	}
	time.Sleep(settle)
}
