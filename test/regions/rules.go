package regions

import (
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Document is the rules file with which a script begins.
func (s *Script) Document() (string, error) {
	return written("rules of the script", map[string]any{"regions": s.Shares, "rules": s.Fields})
}

// marker is a rule whose limit is the number of the rules document that has it. Each worker of a PoP states it
// in the headers of what it answers, and so which rules it decides by.
const marker = "rules-in-force"

// marked is a rules file with its number.
func marked(document string, number int) (string, error) {
	return edited("rules with a number", document, func(fields map[string]any) error {
		rules, _ := fields["rules"].([]any)
		fields["rules"] = append(rules, map[string]any{"name": marker, "match": map[string]any{"path": "/" + marker}, "key": []any{},
			"limit": fmt.Sprintf("%d/1h", number), "algorithm": "fixed_window", "scope": "pop"})
		return nil
	})
}

func equalWeights() map[string]int {
	weights := map[string]int{}
	for _, name := range Names {
		weights[name] = 1
	}
	return weights
}

func limited(document, rule, limit string) (string, error) {
	return edited("rules with another limit", document, func(fields map[string]any) error {
		all, _ := fields["rules"].([]any)
		for _, r := range all {
			if r, _ := r.(map[string]any); r != nil && r["name"] == rule {
				r["limit"] = limit
				return nil
			}
		}
		return fmt.Errorf("there is no rule %q", rule)
	})
}

// edited is a rules file in which something was changed.
func edited(name, document string, change func(fields map[string]any) error) (string, error) {
	fields := map[string]any{}
	err := yaml.Unmarshal([]byte(document), &fields)
	if err == nil {
		err = change(fields)
	}
	if err != nil {
		return "", err
	}
	return written(name, fields)
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
	if rules, err := s.Document(); err != nil || rules != w.rules {
		w.applyChanged(rules, err)
	}
	w.awaitRules()
}

func (w *World) applyChanged(rules string, err error) {
	w.t.Helper()
	fatal.If(w.t, err)
	w.apply(rules, "script")
}

// apply puts rules into Consul, as a person does.
func (w *World) apply(rules, reason string) {
	w.t.Helper()
	text := rules
	if !w.unmarked {
		w.number++
		text = fatal.Get(marked(rules, w.number))(w.t)
	}
	file := proc.WriteFile(w.t, filepath.Join(w.dir, "rules.yaml"), text)
	out := proc.Run(w.t, exec.Command(proc.Built(w.t, "bin/weir", "build"), "rules", "apply", file, "--reason", reason,
		"--consul", w.Regions[0].Consul.Leader().Addr))
	if _, err := fmt.Sscanf(out, "Applied. Revision %f is in force", &w.revision); err != nil {
		w.t.Fatalf("weir rules apply printed %q: %v", out, err)
	}
	w.rules = rules
}

// Unmark applies the rules without the marker, from now on, for people who look at them. Nothing plays in such a world.
func (w *World) Unmark() {
	w.unmarked = true
	w.apply(w.rules, "without the marker of tests")
}

// awaitRules waits until every program and every worker of every PoP decides by the rules that were applied last.
func (w *World) awaitRules() {
	w.t.Helper()
	programs := slices.Clone(w.Aggregators)
	for _, r := range w.Regions {
		programs = append(programs, r.Replicas...)
	}
	for _, p := range programs {
		proc.Await(w.t, time.Minute, "the rules at "+p.Name, func() string {
			if got := p.Metrics()["weir_rules_revision"]; got != w.revision {
				return fmt.Sprintf("revision %.0f, want %.0f", got, w.revision)
			}
			return ""
		})
	}
	for _, r := range w.Regions {
		for _, p := range r.PoPs {
			proc.Await(w.t, time.Minute, "the rules at "+p.Name, func() string { return w.rulesAt(p) })
		}
	}
}

// workersAsked is how many requests ask the workers of a PoP. Each has a connection of its own, which the kernel
// gives to one of two workers, so that one is left out once in 2³¹ times.
const workersAsked = 32

// rulesAt is what is wrong with the rules by which the workers of a PoP decide.
func (w *World) rulesAt(p *envoy.Envoy) string {
	want := fmt.Sprintf("%q;q=%d;", marker, w.number)
	for range workersAsked {
		resp, _, err := page.Get(w.t.Context(), &apart, "http://"+p.Addr+"/"+marker)
		if err != nil {
			return err.Error()
		}
		if got := resp.Header.Get("RateLimit-Policy"); !strings.HasPrefix(got, want) {
			return fmt.Sprintf("a worker has rules with %s, want %s", got, want)
		}
	}
	return ""
}

// apart makes a connection for each request.
var apart = http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
