package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/docs"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Whoever follows docs/tutorial.md sees what it shows.
func TestTutorial(t *testing.T) {
	t.Parallel()
	const page = "docs/tutorial.md"
	d := newDemo(t)
	// Where the page names no installation, commands call the one on this machine: here that of the demo.
	proc.WriteFile(t, filepath.Join(d.dir, "config/weir/contexts.yaml"), "current: demo\ncontexts: [{ name: demo, url: \"http://"+d.regionAPI+"\" }]\n")
	here := strings.NewReplacer("127.0.0.1:10000", d.pop, "127.0.0.1:8090", d.regionAPI)
	blocks := docs.Parse(page, shipped(t, page)).Blocks
	for i, b := range blocks {
		text := strings.Join(b.Lines, "\n")
		switch {
		case b.Lang != "sh" || text == "make build":
			continue
		case text == "make run":
			d.start(t)
			proc.AwaitWindow(time.Minute, 40*time.Second) // or what is counted on trial may be over when the rule is in force
			continue
		}
		got, err := d.shell(t, here.Replace(text))
		if i+1 == len(blocks) || blocks[i+1].Lang != "text" {
			if err != nil || len(got) > 0 {
				t.Errorf("%s:%d: the page shows nothing of this: %v\n%s", page, b.Line, err, got)
			}
			continue
		}
		if is, want := alike(got), alike(strings.Join(blocks[i+1].Lines, "\n")); is != want {
			t.Errorf("%s:%d: printed is\n%s\nalike:\n%s\nthe page has\n%s", page, b.Line, got, is, want)
		}
	}
}

// shell runs commands of a reader in the demo's directory, and returns what they print; an error if the last one fails.
func (d *demo) shell(t *testing.T, commands string) (printed string, err error) {
	t.Helper()
	out, err := os.CreateTemp(d.dir, "printed") // no pipe: something may go on behind the last command
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", commands)
	cmd.Dir, cmd.Env = d.dir, append(os.Environ(), "XDG_CONFIG_HOME="+filepath.Join(d.dir, "config"))
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	text, failed := os.ReadFile(out.Name())
	if failed = errors.Join(failed, out.Close()); failed != nil {
		t.Fatal(failed)
	}
	return string(text), err
}

// changing is what differs each time: times, revisions, waits, rates, and a count behind one.
var changing = regexp.MustCompile(`\b\d{16}\b|\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d(?:\.\d+)?|(?:\d+[hm])*\d[\d.]*m?s\b|(?:t=|retry-after"?: ?)\d+|date: .*|content-length: .*|\d+%|\s\d+\.\d(?:\s+\d+)?(?:\s|$)`)

// alike is what is printed without what differs each time, the width of columns, and lines that are then like the one before.
func alike(printed string) string {
	var lines []string
	for _, line := range strings.Split(strings.TrimSpace(printed), "\n") {
		line = strings.Join(strings.Fields(changing.ReplaceAllString(line, "~ ")), " ")
		if n := len(lines); n == 0 || lines[n-1] != line {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
