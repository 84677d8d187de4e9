package proc

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/weirlimit/weir/test/kit/page"
)

const (
	// startTimeout is how long a program may take until it is ready: a filter takes
	// seconds of CPU to compile, on a machine that may be busy.
	startTimeout = 3 * time.Minute
	// stopTimeout is how long it may take to end after SIGTERM.
	stopTimeout = 15 * time.Second
)

// Process is a program in a process group of its own. The kernel kills it when the
// process that started it dies, however that dies. Its methods fail the test where
// they cannot do what they promise; they may be called from one goroutine at a time.
type Process struct {
	Name string
	Argv []string // what Begin runs
	// Output is what standard output and error are instead of the log, such as a socket: under systemd
	// they are one.
	Output *os.File

	t      T
	dir    string
	cmd    *exec.Cmd     // nil: not started yet
	done   chan struct{} // closed when it has exited
	paused atomic.Bool
}

// New prepares a program, which Begin starts. Its output is appended to dir/name.log.
// It ends with the test.
func New(t T, dir, name string, argv ...string) *Process {
	t.Helper()
	p := &Process{Name: name, t: t, Argv: argv, dir: dir}
	t.Cleanup(func() {
		if p.cmd == nil {
			return
		}
		if t.Failed() {
			t.Logf("end of %s:\n%s", p.LogPath(), p.Tail(30))
		}
		p.Kill()
	})
	return p
}

// Start prepares a program and starts it.
func Start(t T, dir, name string, argv ...string) *Process {
	t.Helper()
	p := New(t, dir, name, argv...)
	p.Begin()
	return p
}

// Begin starts the program, or starts it again after it has exited, and does not wait
// until it is ready.
func (p *Process) Begin() {
	p.t.Helper()
	out, err := os.OpenFile(p.LogPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		p.t.Fatalf("%s: %v", p.Name, err)
	}
	cmd := exec.Command(p.Argv[0], p.Argv[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	if p.Output != nil {
		cmd.Stdout, cmd.Stderr = p.Output, p.Output
	}
	cmd.Env = append(os.Environ(), "STATE_DIRECTORY="+filepath.Join(p.dir, p.Name+".kept")) // where a region keeps its counters
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := errors.Join(cmd.Start(), out.Close()); err != nil {
		p.t.Fatalf("%s: %v", p.Name, err)
	}
	done := make(chan struct{})
	p.cmd, p.done = cmd, done
	p.paused.Store(false)
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(done)
	}()
}

// AwaitReady waits until a URL answers 200 or, for "tcp://host:port", takes a
// connection.
func (p *Process) AwaitReady(url string) {
	p.t.Helper()
	p.AwaitUp(func() string {
		if addr, isTCP := strings.CutPrefix(url, "tcp://"); isTCP {
			conn, err := net.DialTimeout("tcp", addr, time.Second)
			if err != nil {
				return err.Error()
			}
			conn.Close()
			return ""
		}
		resp, body, err := page.Get(p.t.Context(), &probe, url)
		switch {
		case err != nil:
			return err.Error()
		case resp.StatusCode != http.StatusOK:
			return fmt.Sprintf("%s: %s", resp.Status, body)
		}
		return ""
	})
}

// probe asks whether programs are ready, on a new connection each time.
var probe = http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// AwaitUp waits until missing returns an empty text, and fails the test if the process
// exits before that.
func (p *Process) AwaitUp(missing func() string) {
	p.t.Helper()
	Await(p.t, startTimeout, p.Name+" is ready", func() string {
		if p.Exited() {
			p.t.Fatalf("%s exited while starting; end of its log, %s:\n%s", p.Name, p.LogPath(), p.Tail(10))
		}
		return missing()
	})
}

// Exited reports whether the process is gone.
func (p *Process) Exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Answers reports whether it is worth asking: the process is there and not paused.
func (p *Process) Answers() bool { return !p.Exited() && !p.paused.Load() }

// Ended waits until the process has ended, and returns how: "exit status 0".
func (p *Process) Ended() string {
	<-p.done
	return p.cmd.ProcessState.String()
}

// Kill ends the process group at once and waits for it.
func (p *Process) Kill() {
	p.t.Helper()
	p.signal(syscall.SIGKILL)
	<-p.done
}

// Stop sends SIGTERM, and fails the test if the process does not end within 15 s.
func (p *Process) Stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		p.Kill()
		p.t.Errorf("%s did not stop within %v of SIGTERM", p.Name, stopTimeout)
	}
}

// Pause stops the process from running with its connections left open, and with new
// ones accepted by the kernel: a hang.
func (p *Process) Pause() {
	p.t.Helper()
	p.paused.Store(true)
	p.signal(syscall.SIGSTOP)
}

// Resume lets a paused process go on.
func (p *Process) Resume() {
	p.t.Helper()
	p.signal(syscall.SIGCONT)
	p.paused.Store(false)
}

// signal reaches the whole group; one that is gone is no error.
func (p *Process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := syscall.Kill(-p.PID(), s); err != nil && !errors.Is(err, syscall.ESRCH) {
		p.t.Errorf("%s: %v: %v", p.Name, s, err)
	}
}

// PID is the process id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// LogPath is the file with its output.
func (p *Process) LogPath() string { return filepath.Join(p.dir, p.Name+".log") }

// Log returns what the process has printed so far.
func (p *Process) Log() string {
	p.t.Helper()
	b, err := os.ReadFile(p.LogPath())
	if err != nil {
		p.t.Fatalf("%s: %v", p.Name, err)
	}
	return string(b)
}

// Tail returns the last n lines of the log.
func (p *Process) Tail(n int) string {
	b, err := os.ReadFile(p.LogPath())
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// Run runs a command that has to succeed, and returns what it prints.
func Run(t T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
	return string(out)
}
