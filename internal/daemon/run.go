package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirlimit/weir/internal/membudget"
	"github.com/weirlimit/weir/internal/server"
	"github.com/weirlimit/weir/internal/settings"
	"github.com/weirlimit/weir/internal/telemetry"
)

// Configured is the configuration of a program that grants: it embeds a [Config].
type Configured interface {
	Logger(io.Writer) *slog.Logger
	LimitMemory(*slog.Logger) error
}

// Main is the main function of a program that grants: it loads a configuration of the
// arguments and runs until a signal. An error ends the process with status 1.
func Main[C Configured](name string, load func(args []string, out io.Writer) (C, error), run func(context.Context, C, *slog.Logger) error) {
	cfg, err := load(os.Args[1:], os.Stdout)
	if errors.Is(err, settings.ErrHelp) {
		return
	}
	if err == nil {
		log := cfg.Logger(os.Stderr)
		for _, warning := range settings.Environment(os.Environ()) {
			log.Warn(warning)
		}
		if err = cfg.LimitMemory(log); err == nil {
			err = run(untilSignal(), cfg, log)
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// LimitMemory makes MaxMemory the limit of this process, and sets it if it is not set.
func (c *Config) LimitMemory(log *slog.Logger) error {
	most, err := membudget.Limit(int64(c.MaxMemory), log)
	c.MaxMemory = settings.Bytes(most)
	return err
}

// Logger makes the log that the configuration describes.
func (c *Config) Logger(to io.Writer) *slog.Logger {
	return telemetry.NewLogger(to, c.LogFormat, c.LogLevel)
}

// untilSignal returns a context that ends at the first SIGINT or SIGTERM. A second
// signal ends the process at once: it is for operators who cannot wait for the drain.
func untilSignal() context.Context {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx
}

const (
	// writeTime bounds how long a client may take to read an answer. Until then the answer takes memory.
	writeTime = 30 * time.Second
	// adminStreams bounds the calls in flight on one HTTP/2 connection of the admin port. A browser has one connection
	// for all of its tabs.
	adminStreams = 20
	// adminConnections bounds the connections of the admin port.
	adminConnections = 512
	// adminEnd bounds how long calls on the admin port may take when the process ends. A connection of HTTP/2 takes a
	// second to end.
	adminEnd = 3 * time.Second
)

// Port is a port that calls come to. Name is what the log calls it.
type Port struct {
	Name string
	net.Listener
	Server interface {
		Serve(net.Listener) error         // answers until Shut
		Shut(timeout time.Duration) error // lets calls in flight end within the timeout, then cuts them
	}
}

// Run serves until ctx ends, then drains. It returns when everything that it started
// has ended. beside are the ports of a program's own protocols.
//
// The order of the end: become unready, also in Consul, wait until callers have noticed,
// let calls in flight end, return unspent leases, stop what runs behind the service,
// deregister from Consul, save the counters, close the admin port.
func (t *Tier) Run(ctx context.Context, beside ...Port) error {
	defer t.otlp.Close()
	callers, err := server.Listen(ctx, t.cfg.Listen, "listen", 0)
	if err != nil {
		return err
	}
	operators, err := server.Listen(ctx, t.cfg.AdminListen, "admin-listen", adminConnections)
	if err != nil {
		return errors.Join(err, callers.Close())
	}
	limits := server.Limits{MaxStreams: t.cfg.MaxStreams, HeaderTimeout: t.cfg.HeaderTimeout, WriteTimeout: writeTime, IdleTimeout: t.cfg.IdleTimeout}
	quotas := Port{"listen", callers, server.New(t.secure, t.health, limits, t.Log)}
	limits.MaxStreams = min(limits.MaxStreams, adminStreams)
	admin := Port{"admin", operators, server.New(t.secureOps, t.operators, limits, t.Log)}
	ports := append([]Port{quotas}, beside...)

	t.Ready.Notify(func(bool) { t.consul.update() })
	t.register(callers.Addr().String())
	t.counters.snapshots.begin(t.Service.Holders)
	// What runs behind the service outlives the calls that it answers.
	behind, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	tasks, ctx := errgroup.WithContext(ctx) // the first to fail stops all
	for _, run := range t.behind {
		tasks.Go(func() error { return run(behind) })
	}
	for _, w := range t.watchers {
		hangup := make(chan os.Signal, 1)
		signal.Notify(hangup, syscall.SIGHUP) // now: until then a SIGHUP ends the process
		tasks.Go(func() error { return w.Run(behind, hangup) })
	}
	var about []any
	for _, p := range append(ports, admin) {
		tasks.Go(func() error { return p.Server.Serve(p.Listener) })
		about = append(about, p.Name, p.Addr().String())
	}
	t.Log.Info("serving", append(about, "ready", len(t.Ready.Reasons()) == 0)...)

	tasks.Go(func() error {
		<-ctx.Done()
		t.health.Drain()
		t.Log.Info("draining", "wait", t.cfg.DrainWait, "timeout", t.cfg.DrainTimeout)
		t.consul.withdraw()
		time.Sleep(t.cfg.DrainWait)
		err := shut(ports, t.cfg.DrainTimeout)
		drain(t.caches, t.Log)
		stop()
		t.counters.snapshots.end()
		t.admin.End()
		return errors.Join(err, admin.Server.Shut(adminEnd))
	})
	err = tasks.Wait()
	t.Log.Info("ended")
	return err
}

// shut lets the calls in flight end, on all ports at once.
func shut(ports []Port, timeout time.Duration) error {
	errs := make([]error, len(ports))
	var all sync.WaitGroup
	for i, p := range ports {
		all.Go(func() { errs[i] = p.Server.Shut(timeout) })
	}
	all.Wait()
	return errors.Join(errs...)
}
