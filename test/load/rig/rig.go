//go:build linux

// Package rig runs the programs that a benchmark measures, each in a process of
// its own, so that the CPU time and memory of each can be read by itself.
//
// Every Envoy runs envoy/pop.yaml, the bootstrap that is shipped, with other
// addresses and without an access log. Two Envoys of a rig differ by their
// filter and by nothing else.
package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/weirlimit/weir/test/kit/measure"
)

// Rig is a set of running programs. It is not safe for concurrent use, but the
// programs may be started by several goroutines.
type Rig struct {
	root  string // of the repository
	dir   string // configuration and logs of the programs
	ports chan int

	mu      sync.Mutex // for all below
	started []*Process // in the order of their start
	adopted []int      // process ids
}

// maxProcesses bounds what one rig may start: two ports each.
const maxProcesses = 64

// Open makes an empty rig whose programs write to a new directory in .run.
func Open() (*Rig, error) {
	root, err := findRoot()
	if err != nil {
		return nil, err
	}
	parent := filepath.Join(root, ".run")
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(parent, "bench-")
	if err != nil {
		return nil, err
	}
	ports, err := freePorts(2 * maxProcesses)
	if err != nil {
		return nil, err
	}
	return &Rig{root: root, dir: dir, ports: ports}, nil
}

// Root is the root of the repository.
func (r *Rig) Root() string { return r.root }

// Dir is where the programs' configuration and logs are; only Discard removes it.
func (r *Rig) Dir() string { return r.dir }

// Discard removes Dir, for when nobody will ask what went wrong.
func (r *Rig) Discard() error { return os.RemoveAll(r.dir) }

// Close ends every program.
func (r *Rig) Close() {
	for _, p := range r.all() {
		p.Stop()
	}
}

// CPU is the processor time that this program and all that the rig has started
// have used so far.
func (r *Rig) CPU() (time.Duration, error) {
	sum, err := usedByUs()
	for _, p := range r.all() {
		if p.Ended() {
			continue // it is among our children then
		}
		cpu, err2 := measure.CPU(p.PID)
		sum, err = sum+cpu, errors.Join(err, err2)
	}
	for _, pid := range r.adopted {
		if cpu, err := measure.CPU(pid); err == nil { // else it is among our children
			sum += cpu
		}
	}
	return sum, err
}

// Adopt counts a program among those of the rig, for CPU, that this program has
// started without it.
func (r *Rig) Adopt(pid int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.adopted = append(r.adopted, pid)
}

// usedByUs is what this process and those of its children that have ended used.
func usedByUs() (sum time.Duration, err error) {
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			return 0, fmt.Errorf("own CPU time: %w", err)
		}
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return sum, nil
}

func (r *Rig) all() []*Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.started)
}

// addr returns an address that no program of the rig has yet.
func (r *Rig) addr() string { return fmt.Sprintf("127.0.0.1:%d", <-r.ports) }

func (r *Rig) write(name, content string) (path string, err error) {
	path = filepath.Join(r.dir, name)
	return path, os.WriteFile(path, []byte(content), 0o644)
}

// built is the path of what `make build` leaves in bin.
func (r *Rig) built(name string) (string, error) {
	path := filepath.Join(r.root, "bin", name)
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("%w; run `make build` first", err)
	}
	return path, nil
}

// Process is a running program.
type Process struct {
	Name string
	PID  int
	cmd  *exec.Cmd
	log  string        // path
	done chan struct{} // closed when it has ended
}

// start runs argv and waits until it is ready: until a URL answers 200, or, for
// "tcp://host:port", takes a connection.
func (r *Rig) start(ctx context.Context, name, readyURL string, argv ...string) (*Process, error) {
	log := filepath.Join(r.dir, name+".log")
	out, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer func() { _ = out.Close() }() // the child has its own
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	// A benchmark that is killed leaves nothing behind.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	p := &Process{Name: name, PID: cmd.Process.Pid, cmd: cmd, log: log, done: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // how it ended is in its log
		close(p.done)
	}()
	r.mu.Lock()
	r.started = append(r.started, p)
	r.mu.Unlock()
	if err := p.awaitReady(ctx, readyURL); err != nil {
		return nil, err
	}
	return p, nil
}

// awaitReady polls for up to 90 s: a filter takes seconds of CPU to compile, on
// a machine that may be busy.
func (p *Process) awaitReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	for {
		select {
		case <-p.done:
			return fmt.Errorf("%s ended while starting; its log is %s", p.Name, p.log)
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w; its log is %s", p.Name, ctx.Err(), p.log)
		case <-time.After(50 * time.Millisecond):
		}
		if answers(ctx, url) {
			return nil
		}
	}
}

func answers(ctx context.Context, url string) bool {
	addr, isTCP := strings.CutPrefix(url, "tcp://")
	if !isTCP {
		ok, _ := get(ctx, url)
		return ok
	}
	conn, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// get reports whether url answers 200, and the headers of the answer.
func get(ctx context.Context, url string) (ok bool, header http.Header) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false, nil
	}
	req.Header.Set("x-user-id", "probe")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false, nil
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK, resp.Header
}

// Ended reports whether the program is gone.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Stop asks the program to end and kills it after 5 s. It may be called again.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // if that fails it has ended already
	select {
	case <-p.done:
	case <-time.After(5 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// freePorts picks n ports on which nobody listens, below the range from which
// the kernel takes the local ends of outgoing connections (32768 and up).
func freePorts(n int) (chan int, error) {
	ports := make(chan int, n)
	for port := 20_000 + os.Getpid()%5_000; port < 32_000 && len(ports) < n; port++ {
		ln, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue // in use
		}
		ln.Close()
		ports <- port
	}
	if len(ports) < n {
		return nil, fmt.Errorf("only %d of %d ports from 20000 to 32000 are free", len(ports), n)
	}
	return ports, nil
}

func findRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == "/" {
			return "", errors.New("no go.mod here or above: run this inside the repository")
		}
	}
}
