package accesslog

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
	"github.com/weirlimit/weir/test/kit/proc"
)

// TestShipped: the log of envoy/pop.yaml has all inputs of the rules that make run, weir rules init and compose begin with.
func TestShipped(t *testing.T) {
	root := proc.Root(t)
	_, format, _ := strings.Cut(string(golden.Content(t, filepath.Join(root, "envoy/pop.yaml"))), "json_format:\n")
	format, _, _ = strings.Cut(format, "\n\n")
	var fields map[string]any
	fatal.If(t, yaml.Unmarshal([]byte(format), &fields))
	fields["time"], fields["ms"] = "2026-11-26T14:37:20.198Z", 7
	line := fatal.Get(json.Marshal(fields))(t)
	var l Line
	if err := parse(t, &l, string(line)); err != nil {
		t.Fatalf("%v: %s", err, line)
	}
	for _, file := range []string{"envoy/rules.yaml", "cmd/weir/first.yaml", "compose/rules.yaml"} {
		set := fatal.Get(rulefile.Parse(file, golden.Content(t, filepath.Join(root, file))))(t)
		for i := range set.Len() {
			if missing := l.Known.Missing(set.Rule(i)); len(missing) > 0 || !l.Known[Duration] {
				t.Errorf("%s: the access log lacks %v of rule %s", file, missing, set.Rule(i).Name)
			}
		}
	}
}
