package e2e

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/docs"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// demo is a copy of what `make run` runs, on ports that nobody else uses.
type demo struct {
	dir                           string
	pop, admin, region, regionAPI string
	cmd                           *exec.Cmd
	output                        *bufio.Scanner
}

func newDemo(t *testing.T) *demo {
	t.Helper()
	root := proc.Root(t)
	d := &demo{dir: t.TempDir(), pop: proc.FreeAddr(t), admin: proc.FreeAddr(t), region: proc.FreeAddr(t), regionAPI: proc.FreeAddr(t)}
	fatal.If(t, os.CopyFS(filepath.Join(d.dir, "envoy"), os.DirFS(filepath.Join(root, "envoy"))))
	fatal.If(t, os.Symlink(filepath.Join(root, "bin"), filepath.Join(d.dir, "bin")))
	ports := strings.NewReplacer("10000", port(d.pop), "10001", port(proc.FreeAddr(t)),
		"9901", port(d.admin), "8080", port(d.region), "8090", port(d.regionAPI))
	for _, name := range []string{"run.sh", "pop.yaml"} {
		path := filepath.Join(d.dir, "envoy", name)
		text := fatal.Get(os.ReadFile(path))(t)
		fatal.If(t, os.WriteFile(path, []byte(ports.Replace(string(text))), 0o755))
	}
	return d
}

func port(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// start runs the demo until it prints that it is ready.
func (d *demo) start(t *testing.T) {
	t.Helper()
	d.cmd = exec.Command(filepath.Join(d.dir, "envoy", "run.sh"))
	d.cmd.Env = append(os.Environ(), "ENVOY="+envoy.Program(t))
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	out, err := d.cmd.StdoutPipe()
	fatal.If(t, err)
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
	var printed []string
	for d.output.Scan() {
		printed = append(printed, d.output.Text())
		if strings.HasPrefix(d.output.Text(), "Ctrl-C") {
			return
		}
	}
	t.Fatalf("the demo did not start:\n%s", strings.Join(printed, "\n"))
}

func (d *demo) listening() (open []string) {
	for _, addr := range []string{d.pop, d.admin, d.region, d.regionAPI} {
		if c, err := net.Dial("tcp", addr); err == nil {
			c.Close()
			open = append(open, addr)
		}
	}
	return open
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
	if open := d.listening(); len(open) > 0 {
		t.Errorf("still listening after Ctrl-C: %v", open)
	}
}

// A reader who follows docs/tutorial.md sees what it shows, from `make run` to Ctrl-C.
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
	d.stop(t)
}

// shell runs commands of a reader in the demo's directory, and returns what they print; an error if the last one fails.
func (d *demo) shell(t *testing.T, commands string) (printed string, err error) {
	t.Helper()
	out, err := os.CreateTemp(d.dir, "printed") // no pipe: something may go on behind the last command
	fatal.If(t, err)
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
