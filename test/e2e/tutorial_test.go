package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/docs"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
	"github.com/weirlimit/weir/test/kit/proc"
)

// demo is a copy of what `make run` runs, on ports that nobody else uses.
type demo struct {
	dir                           string
	pop, admin, region, regionAPI string
	cmd                           *exec.Cmd
	typed                         io.Writer
	output                        *bufio.Scanner
}

func newDemo(t *testing.T) *demo {
	t.Helper()
	root := proc.Root(t)
	d := &demo{dir: t.TempDir(), pop: proc.FreeAddr(t), admin: proc.FreeAddr(t), region: proc.FreeAddr(t), regionAPI: proc.FreeAddr(t)}
	fatal.If(t, os.CopyFS(filepath.Join(d.dir, "envoy"), os.DirFS(filepath.Join(root, "envoy"))))
	fatal.If(t, os.Symlink(filepath.Join(root, "bin"), filepath.Join(d.dir, "bin")))
	// Requests wait for a busy machine, and exports are slow for long enough that all meet.
	changes := strings.NewReplacer("10000", port(d.pop), "10001", port(proc.FreeAddr(t)),
		"9901", port(d.admin), "8080", port(d.region), "8090", port(d.regionAPI), "delay-request: 2000", "delay-request: 8000",
		"limit: 600/1m", "limit: 600/1m\n    timeout: 1s", "on_failure: deny", "on_failure: deny\n    timeout: 1s")
	for _, name := range []string{"run.sh", "pop.yaml", "rules.yaml"} {
		path := filepath.Join(d.dir, "envoy", name)
		text := fatal.Get(os.ReadFile(path))(t)
		fatal.If(t, os.WriteFile(path, []byte(changes.Replace(string(text))), 0o755))
	}
	// Where a command names no installation, it calls the one on this machine: here that of the demo.
	proc.WriteFile(t, filepath.Join(d.dir, "config/weir/contexts.yaml"), "current: demo\ncontexts: [{ name: demo, url: \"http://"+d.regionAPI+"\" }]\n")
	return d
}

func (d *demo) environ() []string {
	return append(os.Environ(), "XDG_CONFIG_HOME="+filepath.Join(d.dir, "config"), "TZ=UTC")
}

func port(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// start runs the demo with these variables until it prints that it is ready.
func (d *demo) start(t *testing.T, variables ...string) {
	t.Helper()
	d.cmd = exec.Command(filepath.Join(d.dir, "envoy", "run.sh"))
	d.cmd.Env = append(append(d.environ(), "ENVOY="+envoy.Program(t)), variables...)
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	out, err := d.cmd.StdoutPipe()
	fatal.If(t, err)
	d.typed = fatal.Get(d.cmd.StdinPipe())(t)
	d.cmd.Stderr = d.cmd.Stdout
	interrupts := make(chan os.Signal, 1) // or the demo would ignore them where this test does, as a job in the background
	signal.Notify(interrupts, syscall.SIGINT)
	err = d.cmd.Start()
	signal.Stop(interrupts)
	fatal.If(t, err)
	t.Cleanup(func() {
		if d.cmd.ProcessState == nil { // the test failed before it could stop the demo
			_ = syscall.Kill(-d.cmd.Process.Pid, syscall.SIGTERM)
			_ = d.cmd.Wait()
		}
	})
	d.output = bufio.NewScanner(out)
	d.until(t, "Ctrl-C")
}

// until returns what the demo prints before a line that begins so.
func (d *demo) until(t *testing.T, begins string) string {
	t.Helper()
	var printed []string
	for d.output.Scan() {
		if strings.HasPrefix(d.output.Text(), begins) {
			return strings.Join(printed, "\n")
		}
		printed = append(printed, d.output.Text())
	}
	t.Fatalf("the demo ended before it printed %q:\n%s", begins, strings.Join(printed, "\n"))
	return ""
}

// try types the number of a step, and reports if what it prints is not what it says to expect.
func (d *demo) try(t *testing.T, number, want string) {
	t.Helper()
	fatal.Get(io.WriteString(d.typed, number+"\n"))(t)
	d.until(t, "$ ")
	if got := d.until(t, "     Expect"); !regexp.MustCompile(want).MatchString(got) {
		t.Errorf("step %s of make run printed\n%s\nwhich does not match %s", number, got, want)
	}
}

// stop ends the demo, beside which no second one starts, with Ctrl-C: nothing of it goes on.
func (d *demo) stop(t *testing.T) {
	t.Helper()
	busy := exec.Command(filepath.Join(d.dir, "envoy", "run.sh"))
	busy.Env = append(os.Environ(), "ENVOY="+envoy.Program(t))
	if out, err := busy.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("something listens on "+d.pop)) {
		t.Errorf("a second demo: %v, %s", err, out)
	}
	fatal.If(t, syscall.Kill(-d.cmd.Process.Pid, syscall.SIGINT))
	printed := ""
	for d.output.Scan() {
		printed += d.output.Text() + "\n"
	}
	_ = d.cmd.Wait() // the code shows how
	if code := d.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("Ctrl-C: exit code %d, %s", code, printed)
	}
	for _, addr := range []string{d.pop, d.admin, d.region, d.regionAPI} {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			t.Errorf("after Ctrl-C, %s still takes connections", addr)
		}
	}
}

// The steps that `make run` prints show what they say to expect, with the traffic of DEMO=1 beside them.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("TestTutorial tries some of the steps")
	}
	t.Parallel()
	d := newDemo(t)
	fatal.If(t, os.Mkdir(filepath.Join(d.dir, ".tools"), 0o755))
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(d.dir, ".tools/traffic"), "./test/traffic")
	build.Dir = proc.Root(t)
	proc.Run(t, build)
	d.start(t, "DEMO=1")
	d.until(t, "  exports")
	d.try(t, "2", `^(200 ){5}(429 ){2}$`)
	d.try(t, "3", `^429 200 200 $`)
	d.try(t, "5", `"api";q=1000;`)
	d.try(t, "6", `(?m)^trial .*[1-9]`)
	report := d.until(t, "Answered in minute 2")
	for stream, rejected := range map[string]bool{"crawler": true, "visitors": false, "password guesses": true, "user ben": true, "user ann, gold": false, "exports": true} {
		m := regexp.MustCompile(stream + ` +[1-9]\d* admitted, +(\d+) rejected, 0 failed`).FindStringSubmatch(report)
		if m == nil || (m[1] != "0") != rejected {
			t.Errorf("%s: %q of\n%s", stream, m, report)
		}
	}
	d.stop(t)
}

// A reader who follows the front page and docs/tutorial.md sees what they show, from `make run` to Ctrl-C. With -update,
// the pages show what this run has printed.
func TestTutorial(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	d.follow(t, "docs/tutorial.md", func() {
		d.start(t)
		d.try(t, "1", `^HTTP/1.1 200`)
		d.try(t, "4", `^(503 ){20,}(200 ){4,}$`)
		d.try(t, "5", `"api";q=100;`)
		d.follow(t, "README.md", nil)
		if out, err := d.shell(t, "bin/weir keys reset login 127.0.0.1 --reason 'the tutorial has logins of its own'"); err != nil {
			t.Fatal(err, out)
		}
		proc.Await(t, time.Minute, "the PoP reports", func() string { // from then on each second, in time for --wait
			proc.AwaitWindow(time.Minute, 40*time.Second) // or what is counted on trial may be over when the rule is in force
			if out, err := d.shell(t, "bin/weir status"); err != nil || !strings.Contains(out, "pop-1") {
				return "weir status prints " + out
			}
			return ""
		})
	})
	d.stop(t)
}

// follow does what a page says. Where it says `make run`, it calls run.
func (d *demo) follow(t *testing.T, page string, run func()) {
	text := shipped(t, page)
	lines, added := strings.Split(text, "\n"), 0
	// Requests and people wait for a busy machine. The lines of the rule stay as many: one is shown by its number.
	here := strings.NewReplacer("127.0.0.1:10000", d.pop, "127.0.0.1:8090", d.regionAPI, "--for 4s", "--for 8s", "seq 40", "seq 60",
		"on_failure: deny\n\n", "on_failure: deny\n    timeout: 1s\n")
	blocks := docs.Parse(page, text).Blocks
	for i, b := range blocks {
		text := strings.Join(b.Lines, "\n")
		switch {
		case b.Lang != "sh" || text == "make build":
			continue
		case text == "make run":
			run()
			continue
		}
		got, err := d.shell(t, here.Replace(text))
		if i+1 == len(blocks) || blocks[i+1].Lang != "text" {
			if err != nil || len(got) > 0 {
				t.Errorf("%s:%d: the page shows nothing of this: %v\n%s", page, b.Line, err, got)
			}
			continue
		}
		if shown := blocks[i+1]; golden.Writes() {
			printed, at := strings.Split(trailing.ReplaceAllString(got, ""), "\n"), shown.Line-1+added
			lines = slices.Replace(lines, at, at+len(shown.Lines), printed...)
			added += len(printed) - len(shown.Lines)
		} else if is, want := alike(got), alike(strings.Join(shown.Lines, "\n")); is != want {
			t.Errorf("%s:%d: printed is\n%s\nalike:\n%s\nthe page has\n%s", page, b.Line, got, is, want)
		}
	}
	if golden.Writes() {
		proc.WriteFile(t, filepath.Join(proc.Root(t), page), strings.Join(lines, "\n"))
	}
}

// shell runs commands of a reader in the demo's directory, and returns what they print; an error if the last one fails.
func (d *demo) shell(t *testing.T, commands string) (printed string, err error) {
	t.Helper()
	out, err := os.CreateTemp(d.dir, "printed") // no pipe: something may go on behind the last command
	fatal.If(t, err)
	cmd := exec.CommandContext(t.Context(), "bash", "-c", commands)
	cmd.Dir, cmd.Env = d.dir, d.environ()
	cmd.Stdout, cmd.Stderr = out, out
	err = cmd.Run()
	text, failed := os.ReadFile(out.Name())
	if failed = errors.Join(failed, out.Close()); failed != nil {
		t.Fatal(failed)
	}
	return string(text), err
}

// changing is what differs each time: times, revisions, waits, rates, a count behind one, and what leases leave of limits of
// 60 and 600.
var changing = regexp.MustCompile(`\b\d+(?:\s+| of )600?\b|\b\d{16}\b|\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d(?:\.\d+)?|(?:\d+[hm])*\d[\d.]*m?s\b|(?:t=|retry-after"?: ?)\d+|date: .*|content-length: .*|\d+%|\s\d+\.\d(?:\s+\d+)?(?:\s|$)`)

// trailing is space at the end of a line, and at the end of all.
var trailing = regexp.MustCompile(`(?m)[ \r]+$|\s+\z`)

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
