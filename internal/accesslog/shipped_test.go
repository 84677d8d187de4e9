package accesslog

import (
	"encoding/json"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
	"github.com/weirlimit/weir/test/kit/proc"
)

// formatIn is the first json_format below a value of YAML.
func formatIn(value any) map[string]any {
	var below []any
	switch v := value.(type) {
	case map[string]any:
		if format, found := v["json_format"].(map[string]any); found {
			return format
		}
		for _, one := range v {
			below = append(below, one)
		}
	case []any:
		below = v
	}
	for _, one := range below {
		if format := formatIn(one); format != nil {
			return format
		}
	}
	return nil
}

// TestShipped: the log of envoy/pop.yaml has all inputs of the rules that make run, weir rules init and compose begin with.
func TestShipped(t *testing.T) {
	root := proc.Root(t)
	var config any
	fatal.If(t, yaml.Unmarshal(golden.Content(t, filepath.Join(root, "envoy/pop.yaml")), &config))
	fields := formatIn(config)
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
