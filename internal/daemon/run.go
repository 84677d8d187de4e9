package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/weirlimit/weir/internal/admin"
	"github.com/weirlimit/weir/internal/server"
	"github.com/weirlimit/weir/internal/service"
)

// ports are the two servers of a tier.
type ports struct {
	callers, operators *server.Server
	health             *server.Health
}

// Run serves until ctx ends, then drains. It returns when everything that it started
// has ended. Each call of hangups returns a channel of the signals that make files be
// read again. addresses are names and values for the log, beside those of the tier.
//
// The order of the end: refuse readiness, also in Consul, wait until callers have noticed,
// let calls in flight end, return unspent leases, stop what runs behind the service,
// deregister from Consul, save the counters, close the admin port.
func (t *Tier) Run(ctx context.Context, hangups func() <-chan os.Signal, addresses ...any) error {
	defer t.close()
	t.ready.Notify(func(ready bool) {
		for _, e := range t.extensions {
			e.SetReady(ready)
		}
		t.consul.update()
	})
	p, err := t.open(ctx)
	if err != nil {
		return err
	}
	t.register(p.callers.Address())
	t.store.begin(t.Service.Holders)
	// What runs behind the service outlives the calls that it answers.
	behind, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	tasks, ctx := errgroup.WithContext(ctx) // the first to fail stops all
	t.runBehind(behind, tasks, hangups)
	tasks.Go(p.operators.Serve)
	tasks.Go(p.callers.Serve)
	for _, e := range t.extensions {
		tasks.Go(e.Serve)
	}
	tasks.Go(func() error {
		<-ctx.Done()
		return t.end(p, stop)
	})
	about := append([]any{"listen", p.callers.Address(), "admin", p.operators.Address()}, addresses...)
	t.Log.Info("serving", append(about, "epoch", t.store.Epoch(), "ready", len(t.ready.Reasons()) == 0)...)
	err = tasks.Wait()
	t.Log.Info("ended")
	return err
}

func (t *Tier) close() {
	for _, e := range t.extensions {
		_ = e.Close() // Shut has closed it already, unless nothing was served
	}
	t.otlp.Close()
}

// open opens both ports.
func (t *Tier) open(ctx context.Context) (*ports, error) {
	callers, err := server.Listen(ctx, t.cfg.Listen, "listen")
	if err != nil {
		return nil, err
	}
	operators, err := server.Listen(ctx, t.cfg.AdminListen, "admin-listen")
	if err != nil {
		return nil, errors.Join(err, callers.Close())
	}
	quotas, calls := service.NewHandler(t.Service, t.Metrics), http.NewServeMux()
	refused := &refusals{log: t.Log}
	if t.store.divided != nil && len(t.callers) > 0 {
		quotas.Authorize(func(caller *tls.ConnectionState, region string) error {
			err := t.callers.speaks(caller, region)
			refused.note(err, "a replica of a region")
			return err
		})
	}
	calls.Handle("/", quotas)
	for _, e := range t.extensions {
		e.Handle(calls)
	}
	health := server.NewHealth(t.ready, t.callers.guard(calls, t.Metrics, refused))
	about := admin.Config{
		Ready: t.ready, Metrics: t.Metrics.Handler(), Rules: t.Service.Rules, State: t.rulesState, Pprof: t.cfg.Pprof,
	}
	if t.store.divided != nil {
		about.Forget = t.store.divided.Forget
	}
	limits := server.Limits{MaxStreams: t.cfg.MaxStreams, HeaderTimeout: t.cfg.HeaderTimeout, IdleTimeout: t.cfg.IdleTimeout}
	return &ports{
		callers:   server.New(callers, t.secure, health, limits, t.Log),
		operators: server.New(operators, nil, admin.Handler(about), limits, t.Log),
		health:    health,
	}, nil
}

// runBehind starts the store and the watchers, which run until ctx ends.
func (t *Tier) runBehind(ctx context.Context, tasks *errgroup.Group, hangups func() <-chan os.Signal) {
	tasks.Go(func() error { return t.store.Run(ctx) })
	if t.consul != nil {
		tasks.Go(func() error { return t.consul.Run(ctx) })
	}
	if t.stored != nil {
		tasks.Go(func() error { return t.stored.Follow(ctx) })
	}
	watchers := t.rules
	for _, e := range t.extensions {
		watchers = append(watchers, e.Watchers()...)
	}
	for _, w := range watchers {
		hangup := hangups() // now: before the first call a SIGHUP ends the process
		tasks.Go(func() error { return w.Run(ctx, hangup) })
	}
}

// end ends the tier in the order that Run describes. stop stops what runs behind.
func (t *Tier) end(p *ports, stop func()) error {
	p.health.Drain()
	t.Log.Info("draining", "wait", t.cfg.DrainWait, "timeout", t.cfg.DrainTimeout)
	for _, e := range t.extensions {
		e.Drain()
	}
	t.consul.withdraw()
	time.Sleep(t.cfg.DrainWait)
	err := t.shut(p)
	t.store.drain(t.Log)
	stop()
	t.store.end()
	return errors.Join(err, p.operators.Shut(time.Second))
}

// shut lets the calls in flight end, on all ports at once.
func (t *Tier) shut(p *ports) error {
	errs := make([]error, 1+len(t.extensions))
	var all sync.WaitGroup
	for i, e := range t.extensions {
		all.Go(func() { errs[i+1] = e.Shut(t.cfg.DrainTimeout) })
	}
	errs[0] = p.callers.Shut(t.cfg.DrainTimeout)
	all.Wait()
	return errors.Join(errs...)
}
