package main

import (
	"bytes"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/version"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
	"github.com/weirlimit/weir/test/kit/proc"
)

// binary is the program under test.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "weir")
	if err != nil {
		log.Fatal(err)
	}
	binary = filepath.Join(dir, "weir")
	if out, err := exec.Command("go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		log.Fatalf("build of weir: %v\n%s", err, out)
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
	dir := t.TempDir()
	failing := "rules: []\ntests: [{ name: \"\\e[31mred\", steps: [{ request: GET /, expect: denied }] }]\n"
	file := proc.WriteFile(t, filepath.Join(dir, "rules.yaml"), failing)
	for _, c := range []struct{ command, file, want string }{
		{"compile", "\x1b[31mred.yaml", `open \x1b[31mred.yaml`},
		{"validate", "\x1b[31mred.yaml", `open \x1b[31mred.yaml`},
		{"test", "\x1b[31mred.yaml", `open \x1b[31mred.yaml`},
		{"test", file, `\x1b[31mred, step 1`},
	} {
		out := inHome(t, dir, 1, "rules", c.command, c.file)
		if !strings.Contains(out, c.want) || strings.ContainsRune(out, '\x1b') {
			t.Errorf("%s: %q, want %s", c.command, out, c.want)
		}
	}
}

// TestInit: what init writes can be used as it is, and is not written twice.
func TestInit(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	inHome(t, dir, 0, "rules", "init")
	inHome(t, dir, 1, "rules", "init")
	inHome(t, dir, 0, "rules", "validate", "--strict", "rules.yaml")
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
