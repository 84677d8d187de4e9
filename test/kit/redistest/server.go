package redistest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// startTimeout is how long a server may take to answer on a crowded machine.
const startTimeout = 30 * time.Second

// Server is one redis-server. Its methods fail the test where they cannot do what
// they say; they may be called from one goroutine at a time, Try from any.
type Server struct {
	Addr string // host:port
	Port int
	Bus  int // the port on which nodes of a cluster speak; 0: none

	t       T
	name    string
	dir     string
	argv    []string
	process *process
	client  *redis.Client
	paused  atomic.Bool
}

// Start starts one server with settings as on its command line, and waits until
// it answers.
func Start(t T, args ...string) *Server {
	t.Helper()
	return StartWith(t, Args(args...))
}

// StartWith is Start with options.
func StartWith(t T, opts ...Option) *Server {
	t.Helper()
	s := newServer(t, "redis", false, settingsOf(opts))
	s.launch()
	return s
}

// names makes those of log files differ within a directory.
var names struct {
	sync.Mutex
	last map[string]int
}

func newServer(t T, kind string, clustered bool, set *settings) *Server {
	t.Helper()
	s := &Server{t: t, dir: t.TempDir(), name: fileName(kind), Port: freePort(t)}
	s.Addr = fmt.Sprintf("127.0.0.1:%d", s.Port)
	s.argv = []string{program(t, "redis-server"),
		"--port", strconv.Itoa(s.Port), "--bind", "127.0.0.1", "--daemonize", "no",
		"--dir", s.dir, "--dbfilename", s.name + ".rdb", "--save", "", "--appendonly", "no",
		"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1",
	}
	if clustered {
		s.Bus = freePort(t)
		s.argv = append(s.argv, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(s.Bus),
			"--cluster-config-file", s.name+".nodes", "--cluster-node-timeout", "1000",
			"--cluster-require-full-coverage", "no", "--cluster-allow-replica-migration", "no")
	}
	for _, args := range set.each {
		s.argv = append(s.argv, args(s)...)
	}
	s.argv = append(s.argv, set.args...)
	// The harness leaves no trace in a server's statistics but its own commands.
	o := &redis.Options{Addr: s.Addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1, PoolSize: 4,
		DialTimeout: time.Second, ReadTimeout: 5 * time.Second, ContextTimeoutEnabled: true}
	for _, change := range set.client {
		change(o)
	}
	s.client = redis.NewClient(o)
	t.Cleanup(s.close)
	return s
}

func fileName(kind string) string {
	names.Lock()
	defer names.Unlock()
	if names.last == nil {
		names.last = map[string]int{}
	}
	names.last[kind]++
	return fmt.Sprintf("%s-%d", kind, names.last[kind])
}

// start runs the server without waiting for it.
func (s *Server) start() {
	s.t.Helper()
	p, err := run(s.logPath(), s.argv)
	if err != nil {
		s.t.Fatalf("%s: %v", s.name, err)
	}
	s.process = p
}

// await waits until the server answers.
func (s *Server) await() {
	s.t.Helper()
	eventually(s.t, startTimeout, s.name+" answers", func() string {
		if s.Exited() {
			s.t.Fatalf("%s exited while starting; end of its log:\n%s", s.name, tail(s.logPath(), 10))
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := s.client.Ping(ctx).Err(); err != nil {
			return err.Error()
		}
		return ""
	})
}

func (s *Server) launch() {
	s.t.Helper()
	s.start()
	s.await()
}

func (s *Server) close() {
	_ = s.client.Close()
	if s.process == nil {
		return
	}
	_ = s.process.kill()
	if s.t.Failed() {
		s.t.Logf("end of the log of %s at %s:\n%s", s.name, s.Addr, tail(s.logPath(), 15))
	}
}

func (s *Server) logPath() string { return filepath.Join(s.dir, s.name+".log") }

// Log is what the server has printed so far.
func (s *Server) Log() string {
	b, err := os.ReadFile(s.logPath())
	if err != nil {
		s.t.Fatalf("%s: %v", s.name, err)
	}
	return string(b)
}

// Exited reports whether the process is gone.
func (s *Server) Exited() bool { return s.process.exited() }

// answers reports whether it is worth asking.
func (s *Server) answers() bool { return !s.Exited() && !s.paused.Load() }

// Kill ends the server at once: connections are reset, what it counted is gone.
func (s *Server) Kill() {
	s.t.Helper()
	if err := s.process.kill(); err != nil {
		s.t.Errorf("%s: kill: %v", s.name, err)
	}
	s.paused.Store(false)
}

// Pause stops the server from running with its connections left open, and with
// new ones accepted by the kernel: a hang.
func (s *Server) Pause() {
	s.paused.Store(true)
	s.signal(syscall.SIGSTOP)
}

// Resume lets a paused server go on.
func (s *Server) Resume() {
	s.signal(syscall.SIGCONT)
	s.paused.Store(false)
}

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.process.signal(sig); err != nil {
		s.t.Errorf("%s: %v: %v", s.name, sig, err)
	}
}

// Restart starts the server anew where it was, killing it first if it still runs.
// It is empty then; a node of a cluster remembers who it is.
func (s *Server) Restart() {
	s.t.Helper()
	s.Kill()
	s.launch()
}

// Do runs a command and returns its reply: nil, int64, string or []any of these.
func (s *Server) Do(args ...any) any {
	s.t.Helper()
	reply, err := s.Try(args...)
	if err != nil {
		s.t.Fatalf("%s at %s: %v: %v", s.name, s.Addr, args, err)
	}
	return reply
}

// Try is Do for commands that may fail.
func (s *Server) Try(args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	reply, err := s.client.Do(ctx, args...).Result()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	return reply, err
}

// Info is a section of INFO by field.
func (s *Server) Info(section string) map[string]string {
	s.t.Helper()
	return fields(s.Do("INFO", section))
}

// fields splits lines of "name:value".
func fields(reply any) map[string]string {
	text, _ := reply.(string)
	m := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			m[name] = value
		}
	}
	return m
}

// Command is what a server counts of one command.
type Command struct {
	Calls    int64
	Micros   int64 // processor time in all
	Rejected int64 // refused before they ran
	Failed   int64
}

// CommandStats is what INFO commandstats says, by command in small letters;
// "config resetstat" of [Server.Do] sets it to zero.
func (s *Server) CommandStats() map[string]Command {
	s.t.Helper()
	stats := map[string]Command{}
	for name, line := range s.Info("commandstats") {
		var c Command
		for pair := range strings.SplitSeq(line, ",") {
			field, value, _ := strings.Cut(pair, "=")
			n, _ := strconv.ParseInt(value, 10, 64) // usec_per_call is a fraction, and derived
			switch field {
			case "calls":
				c.Calls = n
			case "usec":
				c.Micros = n
			case "rejected_calls":
				c.Rejected = n
			case "failed_calls":
				c.Failed = n
			}
		}
		stats[strings.TrimPrefix(name, "cmdstat_")] = c
	}
	return stats
}

// CPU is the processor time that the server has used.
func (s *Server) CPU() time.Duration {
	s.t.Helper()
	var seconds float64
	info := s.Info("cpu")
	for _, field := range []string{"used_cpu_sys", "used_cpu_user"} {
		n, err := strconv.ParseFloat(info[field], 64)
		if err != nil {
			s.t.Fatalf("%s: INFO cpu: %s: %v", s.name, field, err)
		}
		seconds += n
	}
	return time.Duration(seconds * float64(time.Second))
}
