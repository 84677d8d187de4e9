package docs

import (
	"fmt"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/redisstore"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// Each default and bound that a document names has the value that the programs have.
func TestFigures(t *testing.T) {
	const pages = 1 << table.MaxPagesLog2
	help, pop, start := proc.Run(t, exec.Command(region.Program(t), "--help")), read(t, "envoy/pop.yaml"), read(t, "envoy/run.sh")
	config := fatal.Get(rulebook.ReadConfig([]byte(`{"region_cluster":"r"}`)))(t)
	timeout, redisTimeout := fmt.Sprint(int64(rule.DefaultTimeout/limit.Millisecond), " ms"), fmt.Sprint(topology.DefaultTimeout.Milliseconds(), " ms")
	port := func(flag string) string { return strings.TrimPrefix(flagDefault(t, help, flag), "127.0.0.1") }
	for document, figures := range map[string][]string{
		frontPage: {timeout, setting(t, start, `pop=(\S+)`), setting(t, start, `admin=127\.0\.0\.1(:\d+)`), port("listen"), port("admin-listen"),
			"Go " + setting(t, read(t, "go.mod"), `(?m)^go (\d\.\d+)`)},
		"docs/rules.md":        {timeout},
		"docs/how-it-works.md": {timeout, fmt.Sprintf("%d,%03d pages", pages/1000, pages%1000)},
		"docs/operations.md":   {redisTimeout, strings.Replace(flagDefault(t, help, "state-interval"), "s", " s", 1)},
		redisDocument: {redisTimeout, fmt.Sprintf("(%d)", redisstore.DefaultLanes),
			fmt.Sprint(redisstore.DefaultLanes+2, " connections")},
		"docs/ratelimit-service.md": {flagDefault(t, help, "rls-listen")},
		"docs/envoy.md": {timeout, setting(t, pop, `vm_id: (\S+?)[ ,}\n]`), "connect_timeout: " + setting(t, pop, `(?s)name: weir_region\b.*?connect_timeout: ([\d.]+s)`),
			"base_interval: " + setting(t, pop, `base_interval: ([\d.]+s)`), setting(t, pop, `GOMEMLIMIT: "?(\d+MiB)`)},
		"wasmfilter/edge/rulebook/config.go": {fmt.Sprint("Default ", int64(config.RulesEvery))},
	} {
		for _, figure := range figures {
			if !regexp.MustCompile(`(^|\W)` + regexp.QuoteMeta(figure) + `($|\W)`).MatchString(read(t, document)) {
				t.Errorf("%s does not name %s, which is the value in the programs", document, figure)
			}
		}
	}
}

// measured is a figure with a decimal point, in a page that quotes what another page measured.
var measured = regexp.MustCompile(`\b\d+\.\d+\b`)

// Pages that quote measurements have their figures from the pages that made them.
func TestQuotedFigures(t *testing.T) {
	source := read(t, "docs/benchmarks.md") + read(t, "docs/regions.md") + read(t, "docs/simulator.md")
	figures := measured.FindAllString(source, -1)
	for _, page := range []string{frontPage, "docs/choosing.md"} {
		for number, line := range strings.Split(read(t, page), "\n") {
			if !strings.HasPrefix(line, "| ") {
				continue
			}
			for _, figure := range measured.FindAllString(line, -1) {
				if !slices.Contains(figures, figure) {
					t.Errorf("%s:%d: nothing measured %s", page, number+1, figure)
				}
			}
		}
	}
}

// setting is what a text has in the place of a group.
func setting(t *testing.T, text, pattern string) string {
	t.Helper()
	m := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if m == nil {
		t.Fatalf("nothing matches %s", pattern)
	}
	return m[1]
}

func flagDefault(t *testing.T, help, name string) string {
	t.Helper()
	return strings.Trim(setting(t, help, `--`+name+`="?([^" \n]+)`), `"`)
}

var (
	anyVariable = regexp.MustCompile(`\bWEIR_[A-Z_]+\b`)
	getVariable = regexp.MustCompile(`(?:Getenv\(|Variable = )"WEIR_[A-Z_]+"`)
)

// variables are those that programs do not reject, in parts: theirs, and those of others.
func variables(t *testing.T) (parts [][]string) {
	t.Helper()
	for part := range strings.SplitSeq(read(t, "internal/settings/variables.txt"), "\n\n") {
		parts = append(parts, anyVariable.FindAllString(part, -1))
	}
	return parts
}

// The variables that programs do not reject are those that programs, docker-compose.yml, make and tests read.
func TestVariables(t *testing.T) {
	read := [2]map[string]bool{{}, {}}
	for _, words := range []string{"weir-regional", "weir-global", "weir status"} {
		words := strings.Fields(words)
		help := proc.Run(t, exec.Command(proc.Built(t, "bin/"+words[0], "build"), append(words[1:], "--help")...))
		for _, name := range anyVariable.FindAllString(help, -1) {
			read[0][name] = true
		}
	}
	eachFile(t, ".", func(path, text string) {
		switch name := filepath.Base(path); {
		case strings.HasSuffix(name, ".go"):
			text = strings.Join(getVariable.FindAllString(text, -1), "")
		case name != "Makefile" && name != composeFile:
			return
		}
		for _, name := range anyVariable.FindAllString(text, -1) {
			read[1][name] = !read[0][name]
		}
	})
	maps.DeleteFunc(read[1], func(_ string, other bool) bool { return !other })
	for i, listed := range variables(t) {
		if want := slices.Sorted(maps.Keys(read[i])); !slices.Equal(listed, want) {
			t.Errorf("internal/settings/variables.txt has in part %d\n%q, and what is read is\n%q", i, listed, want)
		}
	}
}

var makeVariable = regexp.MustCompile(`\$[($]([A-Z]+)\b`)

// redisDocument has commands for Redis that are run.
const redisDocument = "docs/redis.md"

func redisCommands(d *Document) (all []string) {
	for i := range d.Blocks {
		for _, c := range commandsOf(&d.Blocks[i]) {
			if text, _, _ := strings.Cut(c.Text, " #"); d.Blocks[i].Lang == "" && strings.Contains(text, "redis-cli ") {
				all = append(all, strings.TrimSpace(text))
			}
		}
	}
	return all
}

// What the documents ask to do at Redis works on a cluster: each command finds the key,
// wherever it is.
func TestRedisCommands(t *testing.T) {
	const key = "weir:{login:203.0.113.195}0.ea600.1"
	c := redistest.StartCluster(t, 3, 0)
	owner := c.MasterOf(key)
	owner.Do("SET", key, "x", "EX", "60")
	other := c.Nodes[0]
	if other == owner {
		other = c.Nodes[1] // what is asked first does not have it
	}
	_, port, _ := strings.Cut(other.Addr, ":")
	commands := redisCommands(Parse(redisDocument, read(t, redisDocument)))
	if len(commands) < 3 {
		t.Fatalf("only %d commands are found: %q", len(commands), commands)
	}
	for _, command := range commands {
		here := strings.ReplaceAll(command, "-h 10.0.0.1", "-h 127.0.0.1 -p "+port)
		if strings.Contains(here, "10.0.0.") || !strings.Contains(command, "weir:{login:203.0.113.195}") {
			t.Errorf("%s: no check is written for its servers, or its key", command)
			continue
		}
		out, err := exec.Command("bash", "-euo", "pipefail", "-c", here).CombinedOutput()
		printed := strings.TrimSpace(string(out))
		found := printed == key || strings.Contains(command, "keyslot") && printed == fmt.Sprint(topology.SlotOf(key)) ||
			strings.Contains(command, "pttl") && len(printed) == 5 // tens of thousands of ms
		if err != nil || !found {
			t.Errorf("%s: %v, printed %q", command, err, printed)
		}
	}
}
