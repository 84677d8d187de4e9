package e2e

import (
	"bufio"
	"bytes"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
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
	if err := os.CopyFS(filepath.Join(d.dir, "envoy"), os.DirFS(filepath.Join(root, "envoy"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(root, "bin"), filepath.Join(d.dir, "bin")); err != nil {
		t.Fatal(err)
	}
	ports := strings.NewReplacer("10000", port(d.pop), "10001", port(proc.FreeAddr(t)),
		"9901", port(d.admin), "8080", port(d.region), "8090", port(d.regionAPI))
	for _, name := range []string{"run.sh", "pop.yaml"} {
		path := filepath.Join(d.dir, "envoy", name)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(ports.Replace(string(text))), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func port(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// start runs the demo until it prints that it is ready.
func (d *demo) start(t *testing.T, env ...string) {
	t.Helper()
	d.cmd = exec.Command(filepath.Join(d.dir, "envoy", "run.sh"))
	d.cmd.Env = append(append(os.Environ(), "ENVOY="+envoy.Program(t)), env...)
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	out, err := d.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	d.cmd.Stderr = d.cmd.Stdout
	interrupts := make(chan os.Signal, 1) // or the demo would ignore them where this test does, as a job in the background
	signal.Notify(interrupts, syscall.SIGINT)
	err = d.cmd.Start()
	signal.Stop(interrupts)
	if err != nil {
		t.Fatal(err)
	}
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

// end waits for the end of the demo and returns what it still printed.
func (d *demo) end(t *testing.T) (printed string, code int) {
	t.Helper()
	for d.output.Scan() {
		printed += d.output.Text() + "\n"
	}
	_ = d.cmd.Wait() // the code shows how
	return printed, d.cmd.ProcessState.ExitCode()
}

// tellsOfRules changes the demo's rules, and waits until it prints what became of them.
func (d *demo) tellsOfRules(t *testing.T, rules, what string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(d.dir, "envoy", "rules.yaml"), []byte(rules), 0o644); err != nil {
		t.Fatal(err)
	}
	printed := make(chan string)
	go func() {
		line := ""
		for !strings.Contains(line, "rules: "+what) && d.output.Scan() {
			line = d.output.Text()
		}
		printed <- line
	}()
	select {
	case line := <-printed:
		if !strings.Contains(line, what) {
			t.Errorf("the demo ended, and never printed that %q", what)
		}
	case <-time.After(time.Minute):
		t.Fatalf("a minute after a change of its rules the demo has not printed %q", what)
	}
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

// `make run` shows what it promises to show, and Ctrl-C stops all of it.
func TestDemo(t *testing.T) {
	t.Parallel()
	d := newDemo(t)
	d.start(t, "WEIR_RULES="+filepath.Join(d.dir, "envoy", "rules.yaml"))

	// A worker that is late has no rules yet, and an answer that is late is none.
	inARow := 0
	proc.Eventually(t, 10*time.Second, "each worker reports the limit", func() bool {
		r := do(t, d.pop, http.MethodGet, "/")
		if inARow++; r.Status != 200 || !regexp.MustCompile(`^"client";r=\d+;t=\d+`).MatchString(r.Header.Get("RateLimit")) {
			inARow = 0
		}
		return inARow == 10
	})
	logins := 0
	proc.Eventually(t, 10*time.Second, "a login is refused", func() bool {
		status := do(t, d.pop, http.MethodPost, "/login").Status
		if status == 200 {
			logins++
		}
		return status == 429
	})
	if logins < 1 || logins > 5 {
		t.Errorf("%d logins before one was refused, want 1 to 5", logins)
	}
	d.tellsOfRules(t, "rules: [\n", "new version is wrong")
	good, err := os.ReadFile(filepath.Join(proc.Root(t), "envoy", "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	d.tellsOfRules(t, strings.Replace(string(good), "rules:", "# changed\nrules:", 1)+"\n", "read again, unchanged")

	busy := exec.Command(filepath.Join(d.dir, "envoy", "run.sh"))
	busy.Env = append(os.Environ(), "ENVOY="+envoy.Program(t))
	if out, err := busy.CombinedOutput(); err == nil || !bytes.Contains(out, []byte("something listens on "+d.pop)) {
		t.Errorf("a second demo: %v, %s", err, out)
	}

	if err := syscall.Kill(-d.cmd.Process.Pid, syscall.SIGINT); err != nil { // Ctrl-C
		t.Fatal(err)
	}
	if printed, code := d.end(t); code != 0 {
		t.Errorf("Ctrl-C: exit code %d, %s", code, printed)
	}
	if open := d.listening(); len(open) > 0 {
		t.Errorf("still listening after Ctrl-C: %v", open)
	}
}

func do(t *testing.T, addr, method, path string, headers ...string) stack.Response {
	t.Helper()
	r, err := stack.Do(addr, method, path, "", headers...)
	if err != nil {
		t.Fatalf("%s %s%s: %v", method, addr, path, err)
	}
	return r
}
