package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// What docs/replay.md shows is what the program prints.
func TestReplayDocument(t *testing.T) {
	const page = "../../docs/replay.md"
	text, err := os.ReadFile(page)
	fatal.If(t, err)
	dir, parts := t.TempDir(), strings.Split(string(text), "\n```")
	for i, part := range parts {
		language, block, _ := strings.Cut(part, "\n")
		var file string
		switch {
		case language == "yaml":
			file = "rules.yaml"
		case strings.HasPrefix(block, "{"):
			file = "access.log"
		case strings.HasPrefix(block, "$ weir "):
			var out strings.Builder
			for _, line := range strings.Split(block, "\n") {
				args, isCommand := strings.CutPrefix(line, "$ weir ")
				if !isCommand {
					continue
				}
				cmd := exec.Command(binary, strings.Fields(args)...)
				cmd.Dir = dir
				printed, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%s: %v\n%s", line, err, printed)
				}
				for _, row := range append([]string{line}, strings.Split(string(printed), "\n")...) {
					if row = strings.TrimRight(row, " "); row != "" {
						out.WriteString("\n" + row)
					}
				}
			}
			parts[i] = language + out.String()
			continue
		default:
			continue
		}
		fatal.If(t, os.WriteFile(filepath.Join(dir, file), []byte(block+"\n"), 0o600))
	}
	made := strings.Join(parts, "\n```")
	if *update {
		fatal.If(t, os.WriteFile(page, []byte(made), 0o644))
	} else if made != string(text) {
		t.Errorf("%s prints another output; run the test with -update:\n%s", page, made)
	}
}

// A plot has the requests of all lines; it is the same again.
func TestReplayPlot(t *testing.T) {
	file, golden := filepath.Join(t.TempDir(), "replay.svg"), "testdata/replay/replay.svg"
	cmd := exec.Command(binary, "replay", "testdata/replay/access.log", "--rules", "testdata/replay/rules.yaml", "--svg", file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got, _ := os.ReadFile(file)
	if *update {
		fatal.If(t, os.WriteFile(golden, got, 0o644))
	}
	if want, err := os.ReadFile(golden); err != nil || string(got) != string(want) {
		t.Errorf("%s is another plot (%v)", golden, err)
	}
}
