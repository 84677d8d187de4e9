package regions

import (
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Document is a rules file.
type Document struct {
	Shares map[string]int   `yaml:"regions"`
	Fields []map[string]any `yaml:"rules"`
}

// marker is a rule whose limit is the number of the rules document that has it. Each worker of a PoP states it
// in the headers of what it answers, and so which rules it decides by.
const marker = "rules-in-force"

// setLimit applies the rules with another limit of one of them.
func (w *World) setLimit(rule, limit string) {
	w.t.Helper()
	i := slices.IndexFunc(w.rules.Fields, func(fields map[string]any) bool { return fields["name"] == rule })
	if i < 0 {
		w.t.Fatalf("there is no rule %q", rule)
	}
	next := w.rules
	next.Fields = slices.Clone(next.Fields)
	next.Fields[i] = maps.Clone(next.Fields[i])
	next.Fields[i]["limit"] = limit
	w.apply(next)
}

// apply puts rules into Consul, as a person does.
func (w *World) apply(rules Document) {
	w.t.Helper()
	w.rules = rules
	if !w.unmarked {
		w.number++
		rules.Fields = append(slices.Clip(rules.Fields), map[string]any{"name": marker, "match": map[string]any{"path": "/" + marker}, "key": []any{},
			"limit": fmt.Sprintf("%d/1h", w.number), "algorithm": "fixed_window", "scope": "pop"})
	}
	file := proc.WriteFile(w.t, filepath.Join(w.cfg.Dir, "rules.yaml"), string(fatal.Get(yaml.Marshal(rules))(w.t)))
	out := proc.Run(w.t, exec.Command(proc.Built(w.t, "bin/weir", "build"), "rules", "apply", file, "--reason", "test",
		"--consul", w.Regions[0].Consul.Leader().Addr))
	if _, err := fmt.Sscanf(out, "Applied. Revision %f is in force", &w.revision); err != nil {
		w.t.Fatalf("weir rules apply printed %q: %v", out, err)
	}
}

// Unmark applies the rules without the marker, from now on, for people who look at them. Nothing plays in such a world.
func (w *World) Unmark() {
	w.unmarked = true
	w.apply(w.rules)
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
			w.AwaitRules(p)
		}
	}
}

// AwaitRules waits until every worker of a PoP decides by the rules that were applied last.
func (w *World) AwaitRules(p *envoy.Envoy) {
	w.t.Helper()
	proc.Await(w.t, time.Minute, "the rules at "+p.Name, func() string { return w.rulesAt(p) })
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
