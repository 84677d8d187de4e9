// Package daemon builds the common parts of weir-regional and weir-global: the counters in memory or Redis with their lease
// cache and state file, the calls to the aggregator, the service, the rules, and the ports for callers and operators. [New]
// builds the parts in order; [Tier.Run] starts and ends them in order.
package daemon

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	"github.com/weirlimit/weir/dashboard"
	"github.com/weirlimit/weir/internal/admin"
	"github.com/weirlimit/weir/internal/admin/access"
	"github.com/weirlimit/weir/internal/admin/api"
	"github.com/weirlimit/weir/internal/admin/api/keysapi"
	"github.com/weirlimit/weir/internal/admin/api/liveapi"
	"github.com/weirlimit/weir/internal/admin/api/rulesapi"
	"github.com/weirlimit/weir/internal/aggregator"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/internal/membudget"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/server"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/upstream/client"
	"github.com/weirlimit/weir/internal/watch"
)

//go:generate go test . -run TestOpenAPI -update

// Program describes the program that a tier is for.
type Program struct {
	Name string
	// CallTime is how long calls of its other protocols may take; 0: there are none.
	CallTime time.Duration
	// AggregatorCalls is set for a region; nil: this program is the aggregator, and divides limits
	// among the regions that call it.
	AggregatorCalls *AggregatorCalls
}

// Tier is a tier that has been built. [New] makes it, [Tier.Run] runs it. A program adds a
// protocol of its own in between.
type Tier struct {
	Service *service.Service
	Calls   *http.ServeMux // of the port of the QuotaService
	Ready   *admin.Readiness
	Metrics *telemetry.Registry
	Tracer  *telemetry.Tracer // nil: there are no spans
	Log     *slog.Logger

	cfg        *Config
	budget     membudget.Budget
	otlp       *telemetry.OTLP
	counters   *counters
	store      engine.Store        // the counters behind lease caches, and those of the aggregator
	fall       engine.Fallback     // remembers denials of a failing store; nil without a lease cache
	caches     []*leasecache.Store // hold leases that go back at the end
	consul     *membership         // nil: none
	aggregator *client.Store       // nil: this program calls none
	collector  *live.Collector     // people see the tier through it
	divided    *aggregator.Store   // divides limits among regions; nil: there are none
	rules      *rules
	secure     *tls.Config // of the port for callers; nil: it is not encrypted
	health     *server.Health
	operators  http.Handler
	admin      *api.API
	secureOps  *tls.Config                   // of the port for operators; likewise
	behind     []func(context.Context) error // run as long as calls are answered
	watchers   []*watch.Watcher              // of files; likewise
}

// New builds a tier of its parts, each of which needs those before it, and loads its counters
// and its rules. It opens no port yet.
func New(cfg *Config, p Program, log *slog.Logger) (_ *Tier, err error) {
	t := &Tier{Metrics: telemetry.NewRegistry(p.Name), Ready: newReadiness(cfg, log), Log: log, cfg: cfg, rules: new(rules)}
	if t.otlp, err = telemetry.NewOTLP(cfg.OTLP, p.Name, t.Metrics, log); err != nil {
		return nil, fmt.Errorf("otlp: %w", err)
	}
	t.Tracer = t.otlp.Tracer
	t.rules.inForce.Store(new(inForce))
	if t.secure, err = cfg.TLS.config(t.Metrics, log); err != nil {
		return nil, err
	}

	cached := cfg.LeaseCache == "on" || cfg.LeaseCache == "auto" && len(cfg.Redis) > 0 && p.AggregatorCalls != nil
	calls := p.AggregatorCalls != nil && (len(p.AggregatorCalls.Aggregator) > 0 || cfg.Consul != "")
	tables := 0
	for _, has := range []bool{len(cfg.Redis) == 0, cached, calls, p.AggregatorCalls == nil} {
		if has {
			tables++
		}
	}
	t.budget = membudget.Divide(int64(cfg.MaxMemory), tables)
	if t.counters, err = t.openCounters(); err != nil {
		return nil, err
	}
	if t.consul, err = t.openConsul(&p); err != nil {
		return nil, err
	}
	t.store = t.counters
	if cached {
		cache := leasecache.New(leasecache.Config{
			Store: t.store, MaxKeys: cfg.MaxKeys, MaxBytes: t.budget.Table, Timeout: max(cfg.RedisOf.Timeout, p.CallTime),
		})
		t.store, t.fall, t.caches, t.behind = cache, cache, append(t.caches, cache), append(t.behind, cache.Run)
	}
	switch {
	case p.AggregatorCalls == nil:
		divided := aggregator.New(aggregator.Config{
			Store: t.store, MaxKeys: cfg.MaxKeys, MaxBytes: t.budget.Table, Metrics: t.Metrics, Log: log,
			Cell: t.counters.sharesCell(log), Alone: t.counters.redis == nil, Undecided: standing(t.Ready),
		})
		t.store, t.divided, t.behind = divided, divided, append(t.behind, divided.Run)
	case calls:
		if err := t.openUpstream(p.AggregatorCalls); err != nil {
			return nil, err
		}
	default:
		t.rules.alone = true
	}
	observeCaches(t.caches, t.Metrics)

	t.collector = t.newCollector(&p)
	t.Service = t.newService(&p)
	if err := t.loadSecrets(); err != nil {
		return nil, err
	}
	if err := t.loadRules(); err != nil {
		return nil, fmt.Errorf("no rules to begin with:\n%w", err)
	}
	if t.admin, err = t.openAdmin(&p); err != nil {
		return nil, err
	}
	t.addHandlers(cfg.TLS.callers(p))
	return t, nil
}

// newService makes the service in front of the store.
func (t *Tier) newService(p *Program) *service.Service {
	c := service.Config{
		Store: t.store, Live: t.collector, Divides: p.AggregatorCalls == nil, Share: t.rules.sharePerMille, LiveHolders: t.counters.holders,
		MaxHolders: min(t.cfg.MaxHolders, t.budget.Callers), MaxHoldersPerAddress: t.cfg.MaxHoldersPerAddress,
		MaxCallBytes: t.budget.Calls, SlotSeed: t.cfg.SlotSeed,
		Metrics: t.Metrics, Tracer: t.Tracer, Log: t.Log,
	}
	if t.divided != nil {
		c.Reserves = t.divided
	}
	s := service.NewService(c)
	if t.counters.redis != nil {
		t.counters.redis.CountHolders(s.Live)
	}
	return s
}

// openAdmin makes the admin API.
func (t *Tier) openAdmin(p *Program) (_ *api.API, err error) {
	if t.secureOps, err = t.cfg.Admin.TLS.Load("admin", true, t.Metrics, t.Log, nil, "h2", "http/1.1"); err != nil {
		return nil, err
	}
	c := api.Config{
		Loopback: admin.IsLoopback(t.cfg.AdminListen), Local: t.cfg.Admin.Local, Secure: t.secureOps != nil, Trail: t.rules.store,
		Log: t.Log, Metrics: t.Metrics,
	}
	if path := t.cfg.Admin.Tokens; path != "" {
		list, watcher := access.Watch(path, t.Log, t.Metrics)
		if err := watcher.Load(); err != nil {
			return nil, fmt.Errorf("admin_tokens:\n%w", err)
		}
		c.Callers = list
		t.Watch(watcher)
	}
	a := api.New(c)
	set := func() *rule.Set { set, _ := t.Service.InForce(); return set }
	rulesapi.Add(a, rulesapi.Config{InForce: t.inForce, Set: set, Store: t.rules.store, Rules: t.cfg.Rules})
	liveapi.Add(a, liveapi.Config{Collector: t.collector, Rules: t.Service.RuleNames, Rule: t.Service.Rule, InForce: t.inForce})
	keys := keysapi.Config{Service: t.Service, Collector: t.collector, InForce: t.inForce}
	if p.AggregatorCalls != nil {
		keys.Region = p.AggregatorCalls.Region
	}
	if t.divided != nil {
		keys.Forget = t.divided.Forget
	}
	keysapi.Add(a, keys)
	if reason := a.Closed(); reason != "" {
		t.Log.Info("the admin API is closed", "reason", reason)
	}
	return a, nil
}

// inForce is what the admin API tells of the rules.
func (t *Tier) inForce() v1.InForce {
	version, revision := t.rulesVersion()
	return v1.InForce{Version: version, Revision: rule.Number(revision), Problem: t.rules.problem()}
}

// addHandlers makes what the ports serve.
func (t *Tier) addHandlers(allowed callers) {
	rejected := newRejections(t.Log)
	quotas := service.NewHandler(t.Service, t.Metrics)
	about := admin.Config{
		Ready: t.Ready, Metrics: t.Metrics.Handler(), API: t.admin.Handler(), Page: t.admin.Page(dashboard.Handler()),
	}
	if t.cfg.Pprof {
		about.Profiles = t.admin.Guard(admin.Profiles())
	}
	if t.divided != nil && len(allowed) > 0 {
		quotas.Authorize(func(caller *tls.ConnectionState, region string) error {
			err := allowed.speaks(caller, region)
			rejected(err, "a replica of a region")
			return err
		})
	}
	t.Calls = http.NewServeMux()
	t.Calls.Handle("/", quotas)
	t.health = server.NewHealth(t.Ready, allowed.guard(t.Calls, t.Metrics, rejected))
	t.operators = admin.Handler(about)
}

// NewJudge makes what decides whole requests on the tier's counters.
func (t *Tier) NewJudge() engine.Judge {
	return engine.NewJudge(t.store, t.fall, t.counters.replicas, t.Metrics, t.Log)
}

// Watch has a file followed while the tier runs. It is called before [Tier.Run].
func (t *Tier) Watch(w *watch.Watcher) { t.watchers = append(t.watchers, w) }

// OnRules has f called after each change of the rules. It is called before [Tier.Run].
func (t *Tier) OnRules(f func()) { t.rules.changed = append(t.rules.changed, f) }

// newReadiness returns the readiness of a process: a configuration that cannot work is a reason against it.
func newReadiness(cfg *Config, log *slog.Logger) *admin.Readiness {
	ready := new(admin.Readiness)
	if cfg.Replicas > 1 && len(cfg.Redis) == 0 {
		reason := fmt.Sprintf("replicas: %d, but counters are in this process's memory, which replicas do not share: each would grant the whole limit; run one replica, or give them a shared store with --redis", cfg.Replicas)
		ready.Block(reason)
		log.Error("not ready", "reason", reason)
	}
	return ready
}

// standing returns a function that rejects readiness for a reason in place of the one before; empty: for none. It is for one
// goroutine at a time.
func standing(ready *admin.Readiness) func(reason string) {
	last := ""
	return func(reason string) {
		if reason == last {
			return
		}
		if reason != "" {
			ready.Block(reason)
		}
		if last != "" {
			ready.Allow(last)
		}
		last = reason
	}
}
