package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/test/kit/proc"
)

// startTimeout is how long a server may take to answer on a crowded machine.
const startTimeout = 30 * time.Second

// commandTimeout is how long a command may take.
const commandTimeout = 10 * time.Second

// Server is one redis-server. Its methods fail the test where they cannot do what
// they promise; they may be called from one goroutine at a time, Try from any.
type Server struct {
	Addr string // Host:Port
	Host string
	Port int
	Bus  int // the port on which nodes of a cluster speak; 0: none

	*proc.Process

	t      proc.T
	dir    string
	client *redis.Client
}

// Start starts one server, and waits until it answers.
func Start(t proc.T, opts ...Option) *Server {
	t.Helper()
	s := newServer(t, "redis", false, settingsOf(opts))
	s.launch()
	return s
}

func newServer(t proc.T, kind string, clustered bool, set *settings) *Server {
	t.Helper()
	at := Place{Host: "127.0.0.1"}
	if len(set.places) > 0 {
		at, set.places = set.places[0], set.places[1:]
	}
	s := &Server{t: t, dir: t.TempDir(), Host: at.Host, Port: proc.FreePort(t)}
	s.Addr = net.JoinHostPort(s.Host, strconv.Itoa(s.Port))
	s.Process = proc.New(t, s.dir, fmt.Sprintf("%s-%d", kind, s.Port))
	s.Argv = append(slices.Concat(at.Within, set.before), serverProgram(t),
		"--port", strconv.Itoa(s.Port), "--bind", s.Host, "--daemonize", "no",
		"--dir", s.dir, "--dbfilename", s.Name+".rdb", "--save", "", "--appendonly", "no",
		"--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1",
	)
	if clustered {
		s.Bus = proc.FreePort(t)
		s.Argv = append(s.Argv, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(s.Bus),
			"--cluster-config-file", s.Name+".nodes", "--cluster-node-timeout", "60000",
			"--cluster-require-full-coverage", "no", "--cluster-allow-replica-migration", "no")
	}
	for _, args := range set.each {
		s.Argv = append(s.Argv, args(s)...)
	}
	s.Argv = append(s.Argv, set.args...)
	// The harness leaves no trace in a server's statistics but its own commands.
	o := &redis.Options{Addr: s.Addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1, PoolSize: 4, Dialer: at.Dial,
		DialTimeout: time.Second, ReadTimeout: 5 * time.Second, ContextTimeoutEnabled: true}
	for _, change := range set.client {
		change(o)
	}
	s.client = redis.NewClient(o)
	t.Cleanup(func() { _ = s.client.Close() })
	return s
}

// await waits until the server answers.
func (s *Server) await() {
	s.t.Helper()
	s.AwaitUp(func() string {
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
	s.Begin()
	s.await()
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
		s.t.Fatalf("%s at %s: %v: %v", s.Name, s.Addr, args, err)
	}
	return reply
}

// Try is Do for commands that may fail.
func (s *Server) Try(args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
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
	Calls, Failed int64
}

// CommandStats is what INFO commandstats reports, by command in small letters;
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
			case "failed_calls":
				c.Failed = n
			}
		}
		stats[strings.TrimPrefix(name, "cmdstat_")] = c
	}
	return stats
}
