// Package redistest starts real Redis servers for tests and benchmarks: one, a
// cluster, one with sentinels. They listen on loopback only, keep nothing on disk
// but their logs and a cluster's own configuration, and do not outlive the process
// that started them, not even a killed one.
//
// Where redis-server is missing the test fails and names the make target that
// installs it. It never skips.
package redistest

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/test/kit/proc"
)

// settings are how a server is started and spoken to.
type settings struct {
	before []string // of the command line: a program that starts the server
	args   []string
	each   []func(*Server) []string // arguments that depend on a server's port or directory
	client []func(*redis.Options)
	places []Place // of the servers, in turn; empty: loopback
}

// Place is a network in which servers run. Dial connects to them from the test.
type Place struct {
	Host   string
	Within []string // before the command line of a server
	Dial   func(ctx context.Context, network, addr string) (net.Conn, error)
}

// On has the nodes of a cluster run at these places, in turn.
func On(places ...Place) Option {
	return func(s *settings) { s.places = places }
}

// Option changes how servers are started.
type Option func(*settings)

// Args adds settings in the form of redis-server's command line: "--maxmemory",
// "4mb". They override what the harness sets.
func Args(args ...string) Option {
	return func(s *settings) { s.args = append(s.args, args...) }
}

// NodeTimeout sets after how long the nodes of a cluster take one that does not answer for dead; a minute by default.
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

func settingsOf(opts []Option) *settings {
	s := new(settings)
	for _, o := range opts {
		o(s)
	}
	return s
}

// serverVariable names another server than the system's redis-server: the path of one, such as
// .tools/stores/valkey-server, which tools/conformance.sh sets.
const serverVariable = "WEIR_REDIS_SERVER"

// serverProgram is the path of the server that tests run on.
func serverProgram(t proc.T) string {
	t.Helper()
	name := cmp.Or(os.Getenv(serverVariable), "redis-server")
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not installed: run `make setup`, or unset %s", name, serverVariable)
	}
	return path
}
