// Package daemon is what every program that grants is made of: the counters in memory or
// Redis with their lease cache and state file, the service in front of them, the rules
// file, and the ports for callers and operators. A program adds its own [Extension].
package daemon

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/admin"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/follow"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/upstream"
	"github.com/weirlimit/weir/internal/watch"
)

// Program describes the program that a tier is for.
type Program struct {
	Name string
	// CallTime is how long calls of its extensions may take; 0: there are none.
	CallTime time.Duration
	// Divides is set if the callers are replicas of regions, among which limits are divided.
	Divides bool
	// Above has the tier that counts rules with scope: global; nil: this one does.
	Above *Above
}

// Extension is a protocol that a program serves beside the QuotaService.
type Extension interface {
	Handle(mux *http.ServeMux)  // adds what it serves on the port of the QuotaService
	Watchers() []*watch.Watcher // of the files that it follows
	RulesChanged()              // is called after each change of the rules file's rules
	SetReady(ready bool)        // is called at the start and at each change
	Serve() error               // answers until Shut
	Drain()                     // makes clients go elsewhere; their calls are still answered
	Shut(timeout time.Duration) error
	Close() error // is called at the end, also if nothing was served
}

// Tier is a tier that has been configured. [New] makes it, [Tier.Run] runs it.
type Tier struct {
	Service *service.Service
	Metrics *telemetry.Registry
	Log     *slog.Logger

	cfg        *Config
	otlp       *telemetry.OTLP
	ready      *admin.Readiness
	store      *counters
	consul     *membership      // nil: none
	rules      []*watch.Watcher // one; none without rules
	stored     *follow.Stored   // nil: they are not in Consul
	extensions []Extension
	secure     *tls.Config // of the port for callers; nil: it is not encrypted
	callers    callers
	alone      bool // it has no tier above to count rules with scope: global

	keeper  *upstream.Keeper                 // of the record of its reserve; nil: there is none
	windows atomic.Pointer[[]reserve.Window] // of the limits with shares; nil: there are no rules yet
	regions atomic.Pointer[rule.Regions]     // that have shares, likewise
}

// New makes a tier and loads its rules and its counters. It opens no port yet.
func New(cfg *Config, p Program, log *slog.Logger) (*Tier, error) {
	t := &Tier{Metrics: telemetry.NewRegistry(p.Name), Log: log, cfg: cfg, ready: newReadiness(cfg, log)}
	t.callers = cfg.TLS.callers(p)
	var err error
	if t.otlp, err = telemetry.NewOTLP(cfg.OTLP, p.Name, t.Metrics, log); err != nil {
		return nil, fmt.Errorf("otlp: %w", err)
	}
	if t.secure, err = cfg.TLS.config(t.Metrics, log); err != nil {
		return nil, err
	}
	if t.store, err = newCounters(cfg, p, t.Metrics, t.otlp.Tracer, t.ready, log); err != nil {
		return nil, err
	}
	if err := t.useConsul(&p); err != nil {
		return nil, err
	}
	if p.Above != nil {
		if err := t.useAbove(p.Above); err != nil {
			return nil, err
		}
	}
	if caches := t.store.caches(); len(caches) > 0 {
		observeCaches(caches, t.Metrics)
	}
	reserves := service.Reserves(nil)
	if t.store.divided != nil {
		reserves = t.store.divided
	}
	t.Service = service.NewService(service.Config{
		Reserves:             reserves,
		Divides:              p.Divides,
		Share:                t.sharePerMille,
		Store:                t.store,
		Metrics:              t.Metrics,
		Tracer:               t.otlp.Tracer,
		Log:                  log,
		MaxHolders:           cfg.MaxHolders,
		MaxHoldersPerAddress: cfg.MaxHoldersPerAddress,
		SlotSeed:             cfg.SlotSeed,
		LiveHolders:          t.store.holders,
	})
	if t.store.count != nil {
		t.store.count(t.Service.Live)
	}
	t.Metrics.GaugeFunc("weir_rules_revision", "Revision of the rules in force, as a file states it or weir apply prints it; 0: they have none.", func() float64 {
		revision, _ := t.rulesState()
		return float64(revision)
	})
	if err := t.loadRules(); err != nil {
		return nil, fmt.Errorf("no rules to begin with:\n%w", err)
	}
	return t, nil
}

// loadRules puts the rules file, or what Consul has, in force, or no rules where there is none.
func (t *Tier) loadRules() error {
	if t.cfg.Rules == "" {
		none, err := rulefile.Parse("no rules", []byte("rules: []\n"))
		if err != nil {
			return err
		}
		return t.Service.SetRules(none)
	}
	if t.cfg.rulesInConsul() {
		return t.followRules()
	}
	w := follow.New(t.cfg.Rules, t.setRules, t.Log, t.Metrics)
	t.rules = append(t.rules, w)
	return w.Load()
}

// Tracer makes the spans of extensions; nil: there are none.
func (t *Tier) Tracer() *telemetry.Tracer { return t.otlp.Tracer }

// NewJudge makes what decides whole requests on the tier's counters.
func (t *Tier) NewJudge() engine.Judge {
	return engine.NewJudge(t.store, t.store.fall, t.store.replicas, t.Metrics, t.Log)
}

// Extend adds an extension. It is called before [Tier.Run], which closes the extension.
func (t *Tier) Extend(e Extension) { t.extensions = append(t.extensions, e) }
