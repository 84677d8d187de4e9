package docs

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// small is a checker of a small world.
func small() *Checker {
	return &Checker{
		Exists: func(path string) bool {
			return slices.Contains([]string{"README.md", "envoy/pop.yaml", "envoy/README.md"}, path)
		},
		Declarations: func(path string) ([]string, error) {
			if path != "edge/decide.go" {
				return nil, errors.New("there is no such file")
			}
			return []string{"Decide", "Worker.enforce"}, nil
		},
		Targets:   []string{"run", "test"},
		Programs:  map[string][]string{"weir": {"--help"}, "weir validate": {"--quiet"}, "weir-regional": {"--redis", "--listen"}},
		Variables: []string{"WEIR_RULES"},
		Metrics:   map[string][]string{"weir_waits": {"rule"}, "weir_panics": nil},
		Others:    map[string]string{"weir_region": "a cluster", "--drain-time-s": "of Envoy"},
		Blocks:    map[string]func(*Block) error{"a ──▶ b": func(*Block) error { return nil }},
		YAML: func(text string) error {
			if strings.Contains(text, "limt") {
				return errors.New("unknown field limt")
			}
			return nil
		},
		Shell: func(_ *Document, command string) error {
			if strings.HasPrefix(command, "redis-cli") || strings.HasPrefix(command, "for ") && strings.HasSuffix(command, "done") {
				return nil
			}
			return errors.New(command + ": no check is written for that")
		},
		Headings: func(string) []string { return []string{"the-plugin"} },
	}
}

// Each mistake that is planted is found, with its line, and nothing else is.
func TestPlantedMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		text, want string // the problem that there has to be; empty: none
	}{
		"nothing wrong": {"# The plugin\n\n    make run   # starts\n    WEIR_RULES=x make run\n    bin/weir-regional --redis a:1 \\\n      --listen=b:2\n\n" +
			"```yaml\nrules: []\n```\n`weir validate FILE`, `--redis a`, `weir_waits{rule}`, `weir_region`, `--drain-time-s`, `envoy/pop.yaml`, `/v1/x`, [a](envoy/README.md#the-plugin) [b](#the-plugin)", ""},
		"diagram":           {"\n    a ──▶ b\n    c\n", ""},
		"shell":             {"\n    redis-cli get x\n    for n in 1; do\n      echo $n\n    done\n", ""},
		"target":            {"x\n`make rum`", "2: make rum: there is no such target"},
		"target in example": {"\n    make tset # all\n", "2: make tset"},
		"variable":          {"`WEIR_RULE=x make run`", "1: WEIR_RULE: nothing reads"},
		"variable alone":    {"`WEIR_REDIS`", "1: WEIR_REDIS: nothing reads"},
		"flag":              {"`--redis-cluster`", "1: --redis-cluster: no program has"},
		"flag of program":   {"\n    weir-regional --redis a \\\n      --lisen b\n", "2: --lisen: weir-regional has no"},
		"flag elsewhere":    {"`weir validate --redis x`", "1: --redis: weir validate has no"},
		"subcommand":        {"`weir check FILE`", "1: weir check: there is no such command"},
		"program":           {"\n    weir-global --redis a\n", "2: weir-global --redis a: no check is written"},
		"metric":            {"`rate(weir_wait[1m])`", "1: weir_wait: no program has"},
		"label":             {"`weir_waits{key}`", "1: weir_waits has no label key; it has rule"},
		"file":              {"`envoy/pops.yaml`", "1: envoy/pops.yaml: there is no such file"},
		"file here":         {"`pop.json`", "1: pop.json: there is no such file"},
		"table":             {"| file | |\n| - | - |\n| `README.md` | `pops` |\n| `pops` | |\n\n`pops`", "4: pops: there is no such file"},
		"limit":             {"`100/1m`", ""},
		"functions":         {"`edge/decide.go: Decide` `edge/decide.go: Worker.enforce`", ""},
		"function":          {"`edge/decide.go: Worker.Decide`", "1: edge/decide.go declares no function Worker.Decide"},
		"function's file":   {"`edge/decided.go: Decide`", "1: edge/decided.go: there is no such file"},
		"link":              {"see\n[it](docs/x.md)", "2: the link leads to docs/x.md"},
		"anchor":            {"[it](envoy/README.md#plugins)", "1: the link leads to #plugins"},
		"yaml":              {"a\n```yaml\nlimt: 5\n```", "3: unknown field limt"},
		"language":          {"```hcl\nx\n```", `2: an example in "hcl": no check is written`},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, p := range small().Check(Parse("README.md", c.text)) {
				got = append(got, p.String())
			}
			switch all := strings.Join(got, "\n"); {
			case c.want == "" && all != "":
				t.Error(all)
			case c.want != "" && (len(got) != 1 || !strings.HasPrefix(all, "README.md:"+c.want)):
				t.Errorf("found %q, want %q", all, c.want)
			}
		})
	}
}
