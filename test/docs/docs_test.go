package docs

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/bootstrap"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// documents are those that are judged.
func documents(t *testing.T) []*Document {
	t.Helper()
	paths := []string{frontPage, "CONTRIBUTING.md", "SECURITY.md", "RATIONALE.md", "CHANGELOG.md", "envoy/README.md", "terraform/README.md"}
	for _, pattern := range []string{"internal/*/README.md", "internal/*/*/README.md", "docs/*.md", "docs/runbooks/*.md", "terraform/*/*/README.md", "terraform/*/*/*/*/README.md"} {
		paths = append(paths, fatal.Get(fs.Glob(os.DirFS(proc.Root(t)), pattern))(t)...)
	}
	var all []*Document
	for _, path := range paths {
		all = append(all, Parse(path, read(t, path)))
	}
	return all
}

func read(t *testing.T, path string) string {
	t.Helper()
	return string(fatal.Get(os.ReadFile(filepath.Join(proc.Root(t), path)))(t))
}

// Every command, flag, variable, metric, file, link and example in the documents is
// what the programs have, and a link leads to every page. Who writes a new kind of example adds here how to check it.
func TestDocuments(t *testing.T) {
	j := &judge{
		t:         t,
		elsewhere: append(firsts(requirement, read(t, "go.mod")), secrets(t)...),
		targets:   targets(read(t, "Makefile")),
		variables: slices.Concat(append(variables(t), firsts(makeVariable, read(t, "Makefile")))...),
		programs:  programs(t),
		metrics:   metrics(t),
		linked:    map[string]bool{frontPage: true},
	}
	all := documents(t)
	for _, d := range all {
		j.check(d)
	}
	for _, d := range all {
		if !strings.HasPrefix(d.Path, "terraform/") && !j.linked[d.Path] {
			t.Errorf("no page links to %s", d.Path)
		}
	}
}

// shell judges an example that is given to a shell; it is a command that is none of ours.
func (j *judge) shell(command string) error {
	switch path := j.d.Path; {
	case ran[path] != "", path == "docs/install.md" && slices.Contains(installed, command),
		path == redisDocument && slices.Contains(redisCommands(j.d), command),       // TestRedisCommands runs it
		path == "docs/redis-cluster.md" && strings.HasPrefix(command, "redis-cli "), // TestRedisToCluster runs it
		path == composeDocument && strings.HasPrefix(command, "for "),               // TestCompose runs it
		strings.HasPrefix(path, "terraform/") && ofAccount.MatchString(command):     // no test has an account of AWS
		return nil
	case strings.HasPrefix(command, "helm "):
		return checkHelm(command)
	case strings.HasPrefix(command, "docker compose "):
		return checkCompose(j.t, command)
	}
	return fmt.Errorf("%s: no check is written for that", command)
}

// A block is an example wherever it stands: in a list, its lines begin where its fence does.
func TestParse(t *testing.T) {
	blocks := Parse("page.md", "1. Write:\n\n   ```yaml\n   rules:\n     - { name: a }\n   ```\n\n```sh\nls\n```\n").Blocks
	want := []Block{{4, "yaml", []string{"rules:", "  - { name: a }"}}, {9, "sh", []string{"ls"}}}
	if !reflect.DeepEqual(blocks, want) {
		t.Errorf("%+v, want %+v", blocks, want)
	}
}

// tutorial is what TestTutorial of test/e2e follows, after the front page.
const tutorial = "docs/tutorial.md"

// ran are documents whose commands a test runs, with that test.
var ran = map[string]string{
	frontPage: "TestTutorial of test/e2e", tutorial: "TestTutorial of test/e2e", slotsPage: "TestProtocolPages", protocolPage: "TestProtocolPages", "docs/access-log.md": "TestAccessLogPage of test/e2e",
	"docs/replay.md": "TestReplayDocument of cmd/weir", "docs/bootstrap.md": "TestGossipKeyIsReplaced of internal/bootstrap",
	"docs/home-region.md": "TestCompose of test/compose",
}

// installed are commands of docs/install.md that others run in their way: TestLimitFromArchive of test/release those of the
// archive, on free ports, TestCompose the first one, and tests of test/terraform that of the examples. No test runs the last
// one, which needs a cluster.
var installed = []string{
	"for i in $(seq 15); do for port in 10011 10012 10021 10022; do curl -s -o /dev/null -w '%{http_code} ' 127.0.0.1:$port/global; done; done",
	"terraform init && terraform apply", "sha256sum -c --ignore-missing SHA256SUMS && tar xzf weir_VERSION_linux_amd64.tar.gz",
	"env ENVOY=/usr/bin/envoy envoy/run.sh",
	`for i in $(seq 6); do curl -s -o /dev/null -w '%{http_code}\n' -X POST 127.0.0.1:10000/login; done`,
	`seq 700 | xargs -P 20 -I{} curl -s -o /dev/null -w '%{http_code}\n' http://127.0.0.1:10000/ | sort | uniq -c`,
}

// ofAccount are commands of AWS, and variables for them.
var ofAccount = regexp.MustCompile(`^(\w+=\$\()?aws |^cluster=`)

// others are code spans that look like something of ours and are not.
var others = map[string]string{
	"values.yaml":   "a file of operators, for Helm",
	"owners.yaml":   "a file of operators, in a directory of rules",
	"tokens.yaml":   "a file of operators, for --admin-tokens",
	"contexts.yaml": "a file of callers of the admin API",
	"--concurrency": "a flag of Envoy", "--restart-epoch": "a flag of Envoy", "--scan": "a flag of redis-cli",
	"envoy_cluster_membership_healthy": "a metric of Envoy", "envoy_cluster_membership_total": "a metric of Envoy",
	"envoy_cluster_upstream_rq_active": "a metric of Envoy", "envoy_cluster_upstream_rq_pending_overflow": "a metric of Envoy",
	"weir_region": "a cluster", "weir_regions": "a network of docker-compose.yml", "weir_": "how all metrics begin", "weir_ratelimit": "how some begin",
	"tetratelabs/proxy-wasm-go-sdk": "a repository", "proxy-wasm/proxy-wasm-go-sdk": "a repository",
	"application/grpc-web": "a media type", "--force-conflicts": "a flag of Helm", "weir_state_": "how some begin",
	".weir/state":           "made by a region that runs",
	".run/demo/rules.store": "made by make run", ".run/traffic": "made by make run", "weir_VERSION.wasm": "made by make release", "weir_VERSION_provenance.json": "made by make release",
}

// secrets are the files that `weir admin bootstrap secrets` makes, their directories, and the secrets of AWS.
func secrets(t *testing.T) (all []string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "secrets")
	o := bootstrap.Options{Dir: dir, Regions: []string{"eu", "us"}, Home: "eu", Life: time.Hour}
	_, _, err := bootstrap.Run(o, time.Now())
	fatal.If(t, err)
	fatal.If(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		name, _ := filepath.Rel(dir, path)
		all = append(all, name, filepath.Base(name), "secrets/"+name, "weir/"+name)
		return err
	}))
	return all
}

// exists takes patterns too.
func (j *judge) exists(path string) bool {
	if path == "bin" || strings.HasPrefix(path, "bin/") || path == "weir.wasm" || strings.HasPrefix(path, ".tools") {
		return true // is built
	}
	found, err := filepath.Glob(filepath.Join(proc.Root(j.t), path))
	return err == nil && len(found) > 0 || slices.Contains(j.elsewhere, path)
}

var target = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*(?: [a-z0-9-]+)*):`)

func targets(makefile string) []string {
	return strings.Fields(strings.Join(firsts(target, makefile), " "))
}

var (
	helpFlag    = regexp.MustCompile(`(?m)^\s+(?:-\w, )?--(\[no-\])?([a-z0-9-]+)`)
	helpCommand = regexp.MustCompile(`(?m)^  ([a-z][a-z -]*?)(?: [^a-z]|$)`)
)

// programs asks the programs for their flags and commands.
func programs(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	var ask func(words ...string)
	ask = func(words ...string) {
		name, flags := strings.Join(words, " "), []string{}
		if all[name] != nil {
			return // weir help lists all commands once more
		}
		out := proc.Run(t, exec.Command(proc.Built(t, "bin/"+words[0], "build"), append(words[1:], "--help")...))
		for _, m := range helpFlag.FindAllStringSubmatch(out, -1) {
			flags = append(flags, "--"+m[2])
			if m[1] != "" {
				flags = append(flags, "--no-"+m[2])
			}
		}
		all[name] = flags
		if _, commands, found := strings.Cut(out, "\nCommands:\n"); found {
			for _, m := range helpCommand.FindAllStringSubmatch(commands, -1) {
				ask(append(words[:1:1], strings.Fields(m[1])...)...)
			}
		}
	}
	ask("weir-regional")
	ask("weir-global")
	ask("weir")
	all["weir admin bootstrap"] = all["weir admin bootstrap make"] // it is the default
	if len(all) < 30 || len(all["weir-regional"]) < 20 {
		t.Fatalf("the help is not as it is read here: %v", all)
	}
	return all
}
