package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/version"
	"github.com/weirlimit/weir/test/kit/fatal"
)

var update = flag.Bool("update", false, "write the golden files; commit a difference only if you can explain it")

// binary is the program under test.
var binary string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "weir")
	if err == nil {
		binary = filepath.Join(dir, "weir")
		var out []byte
		if out, err = exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
			err = fmt.Errorf("%w\n%s", err, out)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "build of weir:", err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// TestWeir runs the program and compares what it prints and its exit status with
// testdata/NAME.golden.
func TestWeir(t *testing.T) {
	for name, args := range map[string]string{
		"help":             "--help",
		"no_command":       "",
		"unknown_command":  "check good.yaml",
		"unknown_format":   "validate --format xml good.yaml",
		"validate_good":    "validate good.yaml",
		"validate_bad":     "validate bad.yaml",
		"validate_all":     "validate bad.yaml none.yaml good.yaml",
		"validate_json":    "validate --format json bad.yaml none.yaml good.yaml",
		"validate_ok":      "validate --format json good.yaml",
		"validate_none":    "validate",
		"validate_dir":     "validate ratelimit/warned",
		"validate_several": "validate several several_bad",

		"validate_bindings":         "validate good.yaml --descriptors bindings.yaml",
		"validate_bindings_only":    "validate --descriptors bad_bindings.yaml",
		"validate_bindings_bad":     "validate good.yaml --descriptors bad_bindings.yaml",
		"validate_bindings_json":    "validate good.yaml --descriptors bad_bindings.yaml --format json",
		"validate_bindings_two":     "validate good.yaml bad.yaml --descriptors bindings.yaml",
		"validate_ratelimit":        "validate --ratelimit-config ratelimit/warned",
		"validate_ratelimit_json":   "validate --ratelimit-config ratelimit/warned --format json",
		"validate_ratelimit_bad":    "validate good.yaml --ratelimit-config ratelimit/broken",
		"validate_ratelimit_none":   "validate --ratelimit-config ratelimit/nosuch",
		"validate_ratelimit_split":  "validate --ratelimit-config ratelimit/split",
		"validate_ratelimit_merged": "validate --ratelimit-config ratelimit/split --ratelimit-merge-domains",
		"validate_help":             "validate --help",
		"validate_strict":           "validate --strict good.yaml",
		"validate_ignore":           "validate --strict --ignore login-fails-open good.yaml",
		"validate_ignore_unknown":   "validate --ignore login good.yaml",
		"validate_junit":            "validate --format junit bad.yaml none.yaml good.yaml",
		"validate_first":            "validate --strict ../first.yaml",
		"test_first":                "test ../first.yaml",
		"validate_stdin":            "validate -",
		"validate_tests":            "validate bad_tests.yaml",
		"test_help":                 "test --help",
		"test_good":                 "test tested/rules.yaml tested/tests.yaml",
		"test_coverage":             "test tested --coverage",
		"test_coverage_json":        "test tested --coverage --format json",
		"test_failing":              "test failing.yaml",
		"test_failing_json":         "test failing.yaml --format json",
		"test_failing_junit":        "test failing.yaml --format junit",
		"test_only":                 "test failing.yaml --run other",
		"test_only_none":            "test failing.yaml --run nosuch",
		"test_without":              "test good.yaml",
		"test_bad":                  "test bad_tests.yaml --format junit",
		"test_none":                 "test none.yaml",
		"test_nothing":              "test",
		"init_there":                "init good.yaml",
		"history_format":            "history -o xml",
		"token_without":             "token ann",
		"token_role":                "token ann --role root",
		"token_name":                "token a/b --role admin",
		"token_until":               "token ann --role admin --until tomorrow",
		"forget_where":              "forget-region eu",

		"convert_help":     "convert --help",
		"convert_plain":    "convert ratelimit/plain",
		"convert_levels":   "convert ratelimit/levels",
		"convert_without":  "convert ratelimit/without",
		"convert_warned":   "convert ratelimit/warned",
		"convert_broken":   "convert ratelimit/broken",
		"convert_none":     "convert ratelimit/nosuch",
		"convert_split":    "convert ratelimit/split",
		"convert_settings": "convert ratelimit/split --ratelimit-merge-domains --ratelimit-consistency exact --ratelimit-on-failure local --ratelimit-charge-denied",
		"convert_same":     "convert ratelimit/plain --rules new.yaml --descriptors ./new.yaml",
		"convert_there":    "convert ratelimit/plain --rules new.yaml --descriptors good.yaml",

		"compile_good":  "compile good.yaml",
		"compile_bad":   "compile bad.yaml",
		"compile_none":  "compile none.yaml",
		"apply_without": "apply good.yaml",
		"apply_bad":     "apply bad.yaml --dry-run",
		"apply_none":    "apply none.yaml --reason test",
		"apply_stated":  "apply stated.yaml --reason test",

		"explain_help":    "explain --help",
		"explain_neither": "explain --rules good.yaml",
		"explain_both":    "explain / --line {} --rules good.yaml",
		"explain_rules":   "explain /v1/orders -H x-user-id:acme -H x-api-key:k --rules explained.yaml",
		"explain_refused": "explain http://h/beta/x --rules explained.yaml",
		"explain_bad":     "explain /v1/orders --rules bad.yaml",
		"explain_text":    "explain --line - --rules explained.yaml",
		"explain_line":    "explain --rules explained.yaml --line " + logged,
		"explain_flags":   "explain --rules explained.yaml -H x-tier:gold -H x-api-key: -H x-cost:2 --line " + logged,
		"explain_json":    "explain --rules explained.yaml -o json --line " + logged,

		"bootstrap_help":    "bootstrap make --help",
		"bootstrap_nothing": "bootstrap no.such.directory",
		"bootstrap_both":    "bootstrap x --aws eu=eu-central-1 --kubernetes eu",
		"bootstrap_order":   "bootstrap x --rotate tokens --aws eu=eu-central-1",
		"bootstrap_rotate":  "bootstrap x --rotate all",
		"bootstrap_client":  "bootstrap x --client-cert x.pem",
		"bootstrap_flag":    "bootstrap x --nosuch",
		"bootstrap_life":    "bootstrap x --life 110000",
		"bootstrap_file":    "bootstrap good.yaml --regions eu",
		"bootstrap_acl":     "bootstrap acl good.yaml",

		"diff":           "diff diff/old.yaml diff/new.yaml",
		"diff_json":      "diff diff/old.yaml diff/new.yaml --format json",
		"diff_same":      "diff diff/old.yaml diff/same.yaml",
		"diff_bad":       "diff bad.yaml -",
		"diff_help":      "diff --help",
		"replay":         "replay replay/access.log --rules replay/rules.yaml",
		"replay_json":    "replay replay/access.log --rules replay/rules.yaml --format json",
		"replay_help":    "replay --help",
		"replay_rules":   "replay replay/access.log --rules bad.yaml",
		"replay_none":    "replay none.log --rules replay/rules.yaml",
		"replay_empty":   "replay replay/empty.log --rules replay/rules.yaml",
		"replay_broken":  "replay replay/broken.log --rules replay/rules.yaml",
		"replay_stdin":   "replay - --rules replay/rules.yaml",
		"replay_both":    "replay - --rules -",
		"suggest":        "suggest replay/access.log --rules replay/rules.yaml --least 3",
		"suggest_json":   "suggest replay/access.log --rules replay/rules.yaml --share 50 --least 5 --format json",
		"suggest_help":   "suggest --help",
		"suggest_share":  "suggest replay/access.log --rules replay/rules.yaml --share 101",
		"suggest_broken": "suggest replay/broken.log --rules replay/rules.yaml",

		"key":         "key 203.0.113.195 /v1/a|b",
		"key_escaped": "key 203.0.113.195 /v1/{a}%20b",
		"key_long":    "key 203.0.113.195 /v1/" + strings.Repeat("x", 90),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(binary, strings.Fields(args)...)
			cmd.Dir = "testdata"
			var stdout, stderr bytes.Buffer
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("rules: [{ name: a, key: ip }]\n"), &stdout, &stderr
			err := cmd.Run()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			got := fmt.Sprintf("$ %s\n-- stdout\n%s-- stderr\n%s-- exit status %d\n",
				strings.TrimSpace("weir "+args), &stdout, &stderr, cmd.ProcessState.ExitCode())
			file := filepath.Join("testdata", name+".golden")
			if *update {
				fatal.If(t, os.WriteFile(file, []byte(got), 0o644))
			}
			want, err := os.ReadFile(file)
			fatal.If(t, err)
			if got != string(want) {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// logged is a line of an access log, which lacks what no rule but hidden needs, and the header x-tier.
const logged = `{"client":"192.0.2.1","details":"weir-denied:per-user/acme","headers":{"x-user-id":"acme"},"key":"acme","method":"GET","override":"acme","path":"/v1/orders","remaining":"0","rule":"per-user","status":429,"time":"2026-11-26T14:37:20.227Z"}`

// An error has no control characters: a reason that somebody else gave for his version may be in it. Nor has a test that fails.
func TestEscapes(t *testing.T) {
	for _, command := range []string{"compile", "validate", "test"} {
		out, err := exec.Command(binary, command, "\x1b[31mred.yaml").CombinedOutput()
		if want := `open \x1b[31mred.yaml`; err == nil || !strings.Contains(string(out), want) || bytes.ContainsRune(out, '\x1b') {
			t.Errorf("%s: %q (%v), want %s", command, out, err, want)
		}
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	text := "rules: []\ntests: [{ name: \"\\e[31mred\", steps: [{ request: GET /, expect: denied }] }]\n"
	fatal.If(t, os.WriteFile(file, []byte(text), 0o644))
	out, _ := exec.Command(binary, "test", file).CombinedOutput()
	if want := `\x1b[31mred, step 1`; !strings.Contains(string(out), want) || bytes.ContainsRune(out, '\x1b') {
		t.Errorf("%q, want %s", out, want)
	}
}

// TestInit: what init writes can be used as it is, and is not written twice.
func TestInit(t *testing.T) {
	dir := t.TempDir()
	for i, want := range []bool{true, false} {
		cmd := exec.Command(binary, "init")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); (err == nil) != want {
			t.Errorf("call %d: %v\n%s", i, err, out)
		}
	}
	if out, err := exec.Command(binary, "validate", "--strict", filepath.Join(dir, "rules.yaml")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestCompletion asks as a shell does.
func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{"weir vali": "validate", "weir validate --stri": "--strict", "weir validate testdata/goo": "testdata/good.yaml"} {
		cmd := exec.Command(binary)
		cmd.Env = append(os.Environ(), "COMP_LINE="+line)
		if out, err := cmd.Output(); err != nil || strings.TrimSpace(string(out)) != want {
			t.Errorf("%s: %q, %v; want %s", line, out, err, want)
		}
	}
}

func TestVersion(t *testing.T) {
	out, err := exec.Command(binary, "--version").Output()
	if err != nil || string(out) != "weir "+version.Version+"\n" {
		t.Errorf("printed %q (%v)", out, err)
	}
}

// TestDemoRules: the rules that `make run` serves are good.
func TestDemoRules(t *testing.T) {
	if out, err := exec.Command(binary, "validate", "../../envoy/rules.yaml").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
