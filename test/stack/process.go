package stack

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Process is a program that runs for the length of a test, in a process group of
// its own. The kernel kills it when the test process dies, however that dies.
type Process struct {
	Name string
	t    testing.TB
	cmd  *exec.Cmd
	log  string        // path of its stdout and stderr
	done chan struct{} // closed when it has exited
}

// startProcess starts argv with its output appended to dir/name.log.
func startProcess(t testing.TB, dir, name string, argv ...string) *Process {
	t.Helper()
	path := filepath.Join(dir, name+".log")
	out, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(os.Environ(), "STATE_DIRECTORY="+dir) // where a region keeps its counters
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := errors.Join(cmd.Start(), out.Close()); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	p := &Process{Name: name, t: t, cmd: cmd, log: path, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is in its log, and Stop asks no more than that
		close(p.done)
	}()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("end of %s:\n%s", path, tail(path, 30))
		}
		p.Kill()
	})
	return p
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

// Kill ends the process group at once and waits for it.
func (p *Process) Kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// Stop asks the process to end (SIGTERM), and fails the test if it does not
// within 15 s.
func (p *Process) Stop() {
	p.t.Helper()
	p.signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(15 * time.Second):
		p.Kill()
		p.t.Errorf("%s did not stop within 15 s of SIGTERM", p.Name)
	}
}

// Pause stops the process from running, with its connections left open: a hang.
func (p *Process) Pause() { p.signal(syscall.SIGSTOP) }

// Resume lets a paused process go on.
func (p *Process) Resume() { p.signal(syscall.SIGCONT) }

func (p *Process) signal(s syscall.Signal) {
	p.t.Helper()
	if err := syscall.Kill(-p.cmd.Process.Pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		p.t.Errorf("%s: %v: %v", p.Name, s, err)
	}
}

// Log returns what the process has printed so far.
func (p *Process) Log() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(b)
}

// Memory returns the resident memory of the process in bytes.
func (p *Process) Memory() int64 {
	p.t.Helper()
	fields := strings.Fields(p.proc("statm"))
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		p.t.Fatalf("%s: statm: %v", p.Name, err)
	}
	return pages * int64(os.Getpagesize())
}

// CPU returns the processor time that the process has used, to 10 ms.
func (p *Process) CPU() time.Duration {
	p.t.Helper()
	stat := p.proc("stat")
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	var ticks int64
	for _, f := range fields[11:13] { // utime, stime; see proc_pid_stat(5)
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			p.t.Fatalf("%s: stat: %v", p.Name, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100 on every Linux Go runs on
}

func (p *Process) proc(file string) string {
	p.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.cmd.Process.Pid, file))
	if err != nil {
		p.t.Fatalf("%s: %v", p.Name, err)
	}
	return string(b)
}

// tail returns the last n lines of a file.
func tail(path string, n int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimRight(b, "\n"), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n):], []byte("\n")))
}
