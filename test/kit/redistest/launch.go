// Package redistest starts real Redis servers for tests and benchmarks: one, a
// cluster, one with sentinels. They listen on loopback only, keep nothing on disk
// but their logs and a cluster's own configuration, and do not outlive the process
// that started them, not even a killed one.
//
// Where redis-server is missing the test fails and names the make target that
// installs it. It never skips.
package redistest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// T is what of a testing.TB is used. A benchmark that is a program of its own
// uses a [Program] instead.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Failed() bool
	Cleanup(func())
	TempDir() string
}

// Program stands in for the test where there is none. What would fail the test
// ends the program.
type Program struct {
	Dir      string // for logs; it has to exist
	mu       sync.Mutex
	cleanups []func()
}

// Close stops all that was started for p, the newest first.
func (p *Program) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.cleanups) > 0 {
		last := len(p.cleanups) - 1
		clean := p.cleanups[last]
		p.cleanups = p.cleanups[:last]
		clean()
	}
}

// Cleanup adds what Close does.
func (p *Program) Cleanup(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleanups = append(p.cleanups, f)
}

// Helper does nothing.
func (p *Program) Helper() {}

// Failed is false: a program that failed has ended.
func (p *Program) Failed() bool { return false }

// TempDir is the program's directory.
func (p *Program) TempDir() string { return p.Dir }

// Logf prints to stderr.
func (p *Program) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Errorf is as Fatalf.
func (p *Program) Errorf(format string, args ...any) { p.Fatalf(format, args...) }

// Fatalf prints to stderr and ends the program; the kernel ends what it started.
func (p *Program) Fatalf(format string, args ...any) {
	p.Logf(format, args...)
	os.Exit(1)
}

// settings are how a server is started and spoken to.
type settings struct {
	args   []string
	each   []func(*Server) []string // arguments that depend on a server's port or directory
	client []func(*redis.Options)
}

// Option changes how servers are started.
type Option func(*settings)

// Args adds settings in the form of redis-server's command line: "--maxmemory",
// "4mb". They override what the harness sets.
func Args(args ...string) Option {
	return func(s *settings) { s.args = append(s.args, args...) }
}

// NodeTimeout sets after how long the nodes of a cluster take one that does not
// answer for dead; 1 s unless told.
func NodeTimeout(d time.Duration) Option {
	return Args("--cluster-node-timeout", fmt.Sprint(d.Milliseconds()))
}

// Password demands a password of every client, replicas included.
func Password(password string) Option {
	return func(s *settings) {
		s.args = append(s.args, "--requirepass", password, "--masterauth", password)
		s.client = append(s.client, func(o *redis.Options) { o.Password = password })
	}
}

// Client changes how the harness itself connects: what [Server.Do] uses.
func Client(change func(*redis.Options)) Option {
	return func(s *settings) { s.client = append(s.client, change) }
}

func settingsOf(opts []Option) *settings {
	s := new(settings)
	for _, o := range opts {
		o(s)
	}
	return s
}

// process is a program in a process group of its own. The kernel kills it when
// the process that started it dies, however that dies.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has exited
}

// run starts argv with its output appended to a file.
func run(log string, argv []string) (*process, error) {
	out, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(argv[0], argv[1:]...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = out, out
	p.cmd.Dir = filepath.Dir(log)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := errors.Join(p.cmd.Start(), out.Close()); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is in its log
		close(p.done)
	}()
	return p, nil
}

func (p *process) exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill ends the process group at once and waits for it.
func (p *process) kill() error {
	err := p.signal(syscall.SIGKILL)
	<-p.done
	return err
}

// signal reaches the whole group; one that is gone is no error.
func (p *process) signal(s syscall.Signal) error {
	if err := syscall.Kill(-p.cmd.Process.Pid, s); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// program is the path of a program of Redis.
func program(t T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not installed: run `make setup`", name)
	}
	return path
}

// tail is the last n lines of a file.
func tail(path string, n int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	lines := bytes.Split(bytes.TrimRight(b, "\n"), []byte("\n"))
	return string(bytes.Join(lines[max(0, len(lines)-n):], []byte("\n")))
}

// eventually polls ok until it says nothing more is missing, and fails the test
// after within with what was missing last.
func eventually(t T, within time.Duration, what string, missing func() string) {
	t.Helper()
	deadline := time.Now().Add(within)
	for {
		left := missing()
		if left == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: not within %v: %s", what, within, strings.TrimSpace(left))
		}
		time.Sleep(10 * time.Millisecond)
	}
}
