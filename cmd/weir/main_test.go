package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/version"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
)

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

// TestWeir runs the commands in the first lines of testdata/*.golden, and compares what they print and their exit status
// with the rest.
func TestWeir(t *testing.T) {
	for _, file := range golden.Files(t, "testdata/*.golden") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			command, _, _ := strings.Cut(string(golden.Content(t, file)), "\n")
			args := strings.Fields(strings.TrimPrefix(command, "$ weir"))
			cmd := exec.Command(binary, args...)
			cmd.Dir = "testdata"
			cmd.Env = append(os.Environ(), "TZ=UTC")
			var stdout, stderr bytes.Buffer
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("rules: [{ name: a, key: ip }]\n"), &stdout, &stderr
			if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
				t.Fatal(err)
			}
			golden.Same(t, file, fmt.Sprintf("%s\n-- stdout\n%s-- stderr\n%s-- exit status %d\n", command, &stdout, &stderr, cmd.ProcessState.ExitCode()))
		})
	}
}

// An error has no control characters: a reason that somebody else gave for his version may be in it. Nor has a test that fails.
func TestEscapes(t *testing.T) {
	for _, command := range []string{"compile", "validate", "test"} {
		out, err := exec.Command(binary, "rules", command, "\x1b[31mred.yaml").CombinedOutput()
		if want := `open \x1b[31mred.yaml`; err == nil || !strings.Contains(string(out), want) || bytes.ContainsRune(out, '\x1b') {
			t.Errorf("%s: %q (%v), want %s", command, out, err, want)
		}
	}
	file := filepath.Join(t.TempDir(), "rules.yaml")
	text := "rules: []\ntests: [{ name: \"\\e[31mred\", steps: [{ request: GET /, expect: denied }] }]\n"
	fatal.If(t, os.WriteFile(file, []byte(text), 0o644))
	out, _ := exec.Command(binary, "rules", "test", file).CombinedOutput()
	if want := `\x1b[31mred, step 1`; !strings.Contains(string(out), want) || bytes.ContainsRune(out, '\x1b') {
		t.Errorf("%q, want %s", out, want)
	}
}

// TestInit: what init writes can be used as it is, and is not written twice.
func TestInit(t *testing.T) {
	dir := t.TempDir()
	for i, want := range []bool{true, false} {
		cmd := exec.Command(binary, "rules", "init")
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); (err == nil) != want {
			t.Errorf("call %d: %v\n%s", i, err, out)
		}
	}
	if out, err := exec.Command(binary, "rules", "validate", "--strict", filepath.Join(dir, "rules.yaml")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Help is that of the command, and a first file without a name is printed.
func TestSameOutput(t *testing.T) {
	for words, same := range map[string]string{"help": "--help", "help rules apply": "rules apply --help", "help keys override": "keys override --help"} {
		got := fatal.Get(exec.Command(binary, strings.Fields(words)...).Output())(t)
		if want := fatal.Get(exec.Command(binary, strings.Fields(same)...).Output())(t); string(got) != string(want) {
			t.Errorf("weir %s:\n%s\nwant that of weir %s", words, got, same)
		}
	}
	if got := fatal.Get(exec.Command(binary, "rules", "init", "-").Output())(t); string(got) != string(fatal.Get(os.ReadFile("first.yaml"))(t)) {
		t.Errorf("weir rules init - prints\n%s", got)
	}
}

// TestCompletion asks as a shell does.
func TestCompletion(t *testing.T) {
	for line, want := range map[string]string{"weir rules vali": "validate", "weir rules validate --stri": "--strict", "weir rules validate testdata/goo": "testdata/good.yaml"} {
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
