package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
)

// What docs/replay.md shows is what the program prints.
func TestReplayDocument(t *testing.T) {
	const page = "../../docs/replay.md"
	dir, parts := t.TempDir(), strings.Split(string(golden.Content(t, page)), "\n```")
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
	golden.Same(t, page, strings.Join(parts, "\n```"))
}

// A plot has the requests of all lines; it is the same again.
func TestReplayPlot(t *testing.T) {
	file := filepath.Join(t.TempDir(), "replay.svg")
	const replay = "rules replay testdata/replay/access.log --rules testdata/replay/rules.yaml --svg "
	inHome(t, t.TempDir(), 0, strings.Fields(replay+file)...)
	golden.Same(t, "testdata/replay/replay.svg", string(golden.Content(t, file)))
}
