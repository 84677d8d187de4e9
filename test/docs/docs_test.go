package docs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/internal/accesslog"
	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/internal/admin/client"
	"github.com/weirlimit/weir/internal/bootstrap"
	"github.com/weirlimit/weir/internal/envoyrls/binding"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/ruletests"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
	"github.com/weirlimit/weir/test/regions"
)

// documents are those that are judged.
func documents(t *testing.T) []*Document {
	t.Helper()
	root := proc.Root(t)
	paths := []string{frontPage, "CONTRIBUTING.md", "SECURITY.md", "RATIONALE.md", "CHANGELOG.md", "envoy/README.md", "terraform/README.md"}
	for _, pattern := range []string{"internal/*/README.md", "internal/*/*/README.md", "regional/*/README.md", "docs/*.md", "docs/runbooks/*.md", "terraform/*/*/README.md", "terraform/*/*/*/*/README.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range found {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				t.Fatal(err)
			}
			paths = append(paths, rel)
		}
	}
	var all []*Document
	for _, path := range paths {
		all = append(all, Parse(path, read(t, path)))
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(proc.Root(t), path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Every command, flag, variable, metric, file, link and example in the documents is
// what the programs have. Who writes a new kind of example adds here how to check it.
func TestDocuments(t *testing.T) {
	root := proc.Root(t)
	all, elsewhere, flags := documents(t), append(requirements(t), secrets(t)...), programs(t)
	c := &Checker{
		Exists:       func(path string) bool { return exists(root, path) || slices.Contains(elsewhere, path) },
		Declarations: func(path string) ([]string, error) { return declarations(root, path) },
		Targets:      targets(read(t, "Makefile")),
		Programs:     flags,
		Variables:    variables(t, root),
		Others:       others,
		Blocks:       blocks(t),
		YAML:         checkAdminYAML(t),
		Printed:      func(d *Document) bool { return d.Path == tutorial }, // TestTutorial compares it
		Shell: func(d *Document, command string) error {
			if d.Path == redisDocument && slices.Contains(redisCommands(d), command) {
				return nil // TestRedisCommands runs it
			}
			if d.Path == "docs/redis-cluster.md" && strings.HasPrefix(command, "redis-cli ") {
				return nil // TestRedisToCluster runs it
			}
			if d.Path == "docs/install.md" && strings.HasPrefix(command, "{") {
				return nil // TestAccessLogOfInstall has Envoy write it
			}
			if d.Path == "docs/replay.md" {
				return nil // TestReplayDocument of cmd/weir prints it
			}
			if d.Path == "docs/bootstrap.md" {
				return nil // TestFilesInConsul does the same with the keyring
			}
			if d.Path == tutorial {
				return nil // TestTutorial runs it
			}
			if d.Path == "docs/home-region.md" {
				return nil // TestCompose runs it
			}
			if strings.HasPrefix(command, "docker compose ") {
				return checkCompose(t, command, flags)
			}
			if d.Path == composeDocument && strings.HasPrefix(command, "for ") {
				return nil // TestCompose runs it
			}
			return fmt.Errorf("%s: no check is written for that", command)
		},
		Headings: func(path string) []string {
			if !strings.HasSuffix(path, ".md") {
				return nil
			}
			return Parse(path, read(t, path)).Headings
		},
	}
	if !testing.Short() { // which starts no Envoy
		c.Metrics = metrics(t)
	}
	for _, d := range all {
		for _, p := range c.Check(d) {
			t.Error(p)
		}
	}
}

// tutorial is what TestTutorial of test/e2e follows.
const tutorial = "docs/tutorial.md"

// others are code spans that look like something of ours and are not.
var others = map[string]string{
	"owners.yaml":   "a file of operators, in a directory of rules",
	"contexts.yaml": "a file of callers of the admin API",
	"--concurrency": "a flag of Envoy", "--restart-epoch": "a flag of Envoy", "--drain-time-s": "a flag of Envoy", "--scan": "a flag of redis-cli",
	"envoy_yaml":  "an output of Terraform",
	"weir_region": "a cluster", "weir_regions": "a network of docker-compose.yml", "weir_": "how all metrics begin", "weir_ratelimit": "how some begin",
	"tetratelabs/proxy-wasm-go-sdk": "a repository", "proxy-wasm/proxy-wasm-go-sdk": "a repository",
	"application/proto": "a media type", "weir_state_": "how some begin", ".weir/state": "made by a region that runs",
	".run/demo/rules.store": "made by make run",
}

// secrets are the files that `weir bootstrap secrets` makes, their directories, and the secrets of AWS.
func secrets(t *testing.T) (all []string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "secrets")
	o := bootstrap.Options{Dir: dir, Regions: []string{"eu", "us"}, Home: "eu", Life: time.Hour}
	if _, _, err := bootstrap.Run(o, time.Now()); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		all = append(all, name, filepath.Base(name), "secrets/"+name, "weir/"+name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// exists takes patterns too.
func exists(root, path string) bool {
	if path == "bin" || strings.HasPrefix(path, "bin/") || path == "weir.wasm" || strings.HasPrefix(path, ".tools") {
		return true // is built
	}
	found, err := filepath.Glob(filepath.Join(root, path))
	return err == nil && len(found) > 0
}

var target = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*(?: [a-z0-9-]+)*):`)

func targets(makefile string) (all []string) {
	for _, m := range target.FindAllStringSubmatch(makefile, -1) {
		all = append(all, strings.Fields(m[1])...)
	}
	return all
}

var (
	helpFlag    = regexp.MustCompile(`(?m)^\s+(?:-\w, )?--(\[no-\])?([a-z0-9-]+)`)
	helpCommand = regexp.MustCompile(`(?m)^  ([a-z-]+)(?: ([a-z][a-z-]*))?( |$)`)
)

// programs asks the programs for their flags and commands.
func programs(t *testing.T) map[string][]string {
	t.Helper()
	all, both := map[string][]string{}, map[string][]string{} // both: of commands that have commands
	var ask func(words ...string)
	ask = func(words ...string) {
		cmd := exec.Command(filepath.Join(proc.Root(t), "bin", words[0]), append(words[1:], "--help")...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v --help: %v, %s (run `make build` before)", words, err, out)
		}
		name, flags := strings.Join(words, " "), []string{}
		for _, m := range helpFlag.FindAllStringSubmatch(string(out), -1) {
			flags = append(flags, "--"+m[2])
			if m[1] != "" {
				flags = append(flags, "--no-"+m[2])
			}
		}
		all[name] = flags
		if _, commands, found := strings.Cut(string(out), "\nCommands:\n"); found && len(words) == 1 {
			for _, m := range helpCommand.FindAllStringSubmatch(commands, -1) {
				ask(words[0], m[1])
				if m[2] != "" {
					ask(words[0], m[1], m[2])
					command := words[0] + " " + m[1]
					both[command] = append(both[command], all[command+" "+m[2]]...)
				}
			}
		}
	}
	ask("weir-regional")
	ask("weir-global")
	ask("weir")
	maps.Copy(all, both)
	if len(all) < 4 || len(all["weir-regional"]) < 20 {
		t.Fatalf("the help is not as it is read here: %v", all)
	}
	return all
}

// programHelp is the help of weir-regional.
func programHelp(t *testing.T) string {
	t.Helper()
	help, err := exec.Command(region.Program(t), "--help").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	return string(help)
}

var anyVariable = regexp.MustCompile(`\bWEIR_[A-Z_]+\b`)

// variables are those that programs, scripts and tests name.
func variables(t *testing.T, root string) []string {
	t.Helper()
	all := map[string]bool{}
	note := func(text string) {
		for _, name := range anyVariable.FindAllString(text, -1) {
			all[name] = true
		}
	}
	note(programHelp(t))
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "docs"):
			return filepath.SkipDir
		case entry.Name() == "Makefile", entry.Name() == composeFile, strings.HasSuffix(path, ".sh"), strings.HasSuffix(path, "_test.go"), strings.HasPrefix(path, filepath.Join(root, "test")) && strings.HasSuffix(path, ".go"):
			text, err := os.ReadFile(path)
			note(string(text))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Collect(maps.Keys(all))
}

func checkYAML(text string) error {
	switch {
	case strings.HasPrefix(text, "rules:"), strings.HasPrefix(text, "regions:"):
		_, err := testRules(text)
		return err
	case strings.HasPrefix(text, "owners:"):
		files := []rulefile.File{{Name: "dir/owners.yaml", Data: []byte(text)}}
		for _, name := range []string{"platform.yaml", "team-a.yaml"} {
			files = append(files, rulefile.File{Name: "dir/" + name, Data: []byte("rules: []\n")})
		}
		_, err := rulefile.Merge("dir", files)
		return err
	case strings.HasPrefix(text, "access_log:"):
		return nil // TestAccessLogOfInstall runs it
	case strings.HasPrefix(text, "json_format:"):
		return checkLogFields(text)
	case strings.HasPrefix(text, "bindings:"):
		_, err := binding.Parse("example", []byte(text))
		return err
	}
	return fmt.Errorf("an example of YAML that is neither rules nor owners nor bindings: no check is written for it")
}

// testRules runs the tests of an example, and returns how the first one that fails does, as weir test prints it.
func testRules(text string) (failed string, err error) {
	suite, err := ruletests.Read("rules.yaml", []rulefile.File{{Name: "rules.yaml", Data: []byte(text)}})
	if err != nil {
		return "", err
	}
	for i := range suite.Tests {
		t := &suite.Tests[i]
		f, err := suite.Run(context.Background(), t, nil)
		if err != nil {
			return "", err
		}
		if f != nil {
			failed = fmt.Sprintf("rules.yaml:%d: %s, step %d\n  - %s\n  + %s", f.Line, t.Name, f.Step, f.Expected[0], f.Got[0])
			return failed, errors.New(failed)
		}
	}
	return "", nil
}

// checkLogFields checks that each field of an access log makes an input known.
func checkLogFields(text string) error {
	var doc struct {
		Fields map[string]any `yaml:"json_format"`
	}
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return err
	}
	names := 0
	for _, value := range doc.Fields {
		nested, _ := value.(map[string]any)
		names += max(1, len(nested))
	}
	line, err := json.Marshal(doc.Fields)
	if err != nil {
		return err
	}
	var l accesslog.Line
	if err := l.Parse(line); err != nil || len(l.Known) != names {
		return fmt.Errorf("weir reads %d fields of %d: %v", len(l.Known), names, err)
	}
	return nil
}

// checkAdminYAML checks the files of the admin API and of its callers, and has checkYAML check others.
func checkAdminYAML(t *testing.T) func(text string) error {
	return func(text string) error {
		dir := t.TempDir()
		t.Setenv("XDG_CONFIG_HOME", dir)
		file := filepath.Join(dir, "weir", "contexts.yaml")
		if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			return err
		}
		switch {
		case strings.HasPrefix(text, "tokens:"):
			_, w := access.Watch(file, slog.New(slog.DiscardHandler), telemetry.NewRegistry("test"))
			return w.Load()
		case strings.HasPrefix(text, "current:"):
			_, err := client.Load()
			return err
		}
		return checkYAML(text)
	}
}

// blocks are the examples that are no commands, by their first line.
func blocks(t *testing.T) map[string]func(*Block) error {
	figure := func(*Block) error { return nil }
	return map[string]func(*Block) error{
		`upstreams = ["app.internal:8443"]`: figure, // TestModules plans with it
		"rules.yaml:15: five logins a minute, step 2": func(b *Block) error {
			_, example, _ := strings.Cut(read(t, "docs/testing.md"), "```yaml\n")
			example, _, _ = strings.Cut(example, "```")
			if failed, err := testRules(strings.Replace(example, "5/1m", "6/1m", 1)); failed != strings.Join(b.Lines, "\n") {
				return fmt.Errorf("the test fails otherwise: %w", err)
			}
			return nil
		},

		"client ──▶ Envoy worker ──▶ PoP ─────────────▶ region ──────────────▶ Redis Cluster":         figure,
		"worker of Envoy ── want ──▶ lease cache of a replica ── want ──▶ counter in Redis or memory": figure,
		"probes: changed": figure, // TestPage of rulediff compares
		"keys seen within one period × bytes per key × 1.5 (fragmentation, buffers)": figure,
		"weir:{<rule>:<key>}<override>.<shape>.<layout>":                             figure,
		"rule bucket-demand { limit: 500/1s, algorithm: token_bucket, scope: global, fair: demand, timeout: 1s, on_failure: deny }": func(b *Block) error {
			_, err := regions.Parse("the example", "example", strings.Join(b.Lines, "\n"))
			return err
		},
		"user weir on >PASSWORD resetchannels ~weir:* -@all +evalsha +eval +script|load +time +get +set +getrange +setrange +pexpire +zadd +zrem +zremrangebyscore +zcard +hset +hscan +hdel +cluster|slots +cluster|info +asking +info": func(b *Block) error {
			if acl := read(t, "internal/redis/redisstore/weir.acl"); !strings.Contains(acl, strings.TrimSpace(b.Lines[0])) {
				return fmt.Errorf("the line is not that of weir.acl")
			}
			return nil
		},
	}
}

// metrics are those of running programs, after some requests.
func metrics(t *testing.T) map[string][]string {
	t.Helper()
	rules := read(t, "envoy/rules.yaml")
	s := stack.Start(t, stack.Config{PoPs: 1, Workers: 1, Rules: rules})
	redis := redistest.Start(t)
	dir := t.TempDir()
	for name, text := range map[string]string{"rules.yaml": rules, "config/a.yaml": "domain: a\ndescriptors:\n  - key: k\n    rate_limit: { unit: hour, requests_per_unit: 5 }\n",
		"descriptors.yaml": "bindings: []\n", "key-secrets": "a 00112233445566778899aabbccddeeff\n", "tokens": "tokens: []\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	admin, rlsAddr := proc.FreeAddr(t), proc.FreeAddr(t)
	proc.Start(t, proc.LogDir(t), "region-with-redis", region.Program(t), "--rules", filepath.Join(dir, "rules.yaml"), "--listen", proc.FreeAddr(t),
		"--admin-listen", admin, "--rls-listen", rlsAddr, "--ratelimit-config", filepath.Join(dir, "config"),
		"--descriptors", filepath.Join(dir, "descriptors.yaml"), "--key-secrets", filepath.Join(dir, "key-secrets"), "--admin-tokens", filepath.Join(dir, "tokens"), "--redis", redis.Addr, "--drain-wait", "0s")
	proc.Eventually(t, 20*time.Second, "the region is ready", func() bool { return strings.HasPrefix(get(admin, "/readyz"), "200") })
	p := s.PoPs[0]
	seen := map[string][]string{}
	const decisions = "weir_decisions"
	proc.Eventually(t, 20*time.Second, "the filter has reported what it decided", func() bool {
		p.Get("/")
		note(seen, get(p.Admin, "/stats/prometheus"))
		return len(seen[decisions]) > 0
	})
	note(seen, get(s.Region.Admin, "/metrics"))
	note(seen, get(admin, "/metrics"))
	// What the filter counts is there from the first one on.
	for _, m := range filterStat.FindAllStringSubmatch(read(t, "wasmfilter/filter/stats.go"), -1) {
		name := "weir_" + m[1]
		seen[name] = append(seen[name], strings.Trim(m[2], "."))
	}
	seen[decisions] = append(seen[decisions], "reason", "override") // without the region; of an override with a name
	seen["weir_waits"] = append(seen["weir_waits"], "override")
	for name, labels := range declaredMetrics(t) {
		seen[name] = append(seen[name], labels...)
	}
	return seen
}

var metricDeclaration = regexp.MustCompile(`"(weir_[a-z0-9_]+)",\s*"[^"]*"((?:, "[a-z_]+")*)`)

// declaredMetrics are those in the source of the region, with their labels. Some have no
// samples before something goes wrong.
func declaredMetrics(t *testing.T) map[string][]string {
	t.Helper()
	root, all := proc.Root(t), map[string][]string{}
	for _, dir := range []string{"internal", "regional"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range metricDeclaration.FindAllStringSubmatch(string(text), -1) {
				all[m[1]] = labelName.FindAllString(m[2], -1)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(all) < 40 {
		t.Fatalf("only %d metrics are found in the source", len(all))
	}
	return all
}

var filterStat = regexp.MustCompile(`"weir\.([a-z_]+)(\.[a-z_]+\.)?"`)

var sample = regexp.MustCompile(`(?m)^([a-z_0-9]+)(?:\{(.*)\})? `)

// note adds the samples of a page of metrics, under the names that they are declared by.
func note(seen map[string][]string, page string) {
	for _, m := range sample.FindAllStringSubmatch(page, -1) {
		name := m[1]
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			if short, ok := strings.CutSuffix(name, suffix); ok {
				labels := seen[short]
				for _, l := range regexp.MustCompile(`([a-z_]+)="`).FindAllStringSubmatch(m[2], -1) {
					if !slices.Contains(labels, l[1]) {
						labels = append(labels, l[1])
					}
				}
				seen[short] = labels
			}
		}
	}
}

// get is the status and the body of a page; empty if there is none.
func get(addr, path string) string {
	resp, err := http.Get("http://" + addr + path)
	if err != nil {
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d\n%s", resp.StatusCode, body)
}
