package daemon

import (
	"errors"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/settings"
	"github.com/weirlimit/weir/internal/upstream"
	"github.com/weirlimit/weir/internal/upstream/client"
)

// Above has the settings of a tier that is a holder of another one.
type Above struct {
	// Region is the name of this region, the same at all of its replicas: 1 to 64 letters,
	// digits, -, . or _, which are compared byte by byte. The aggregator groups its holders by it. Required with Global and with Consul, where
	// it is the tag of the replicas.
	Region string `help:"Name of this region. Required with --global and --consul." placeholder:"NAME"`

	// Global has the addresses of the aggregator, as host:port with commas between: rules
	// with scope: global are counted there. With several, the next is called when one does
	// not answer. Without GlobalTLS.TLS they must be on loopback, or GlobalPlain be set. Empty:
	// those that Consul has, of which one at a time is called; without Consul a rule with
	// scope: global is a mistake.
	Global []string `help:"Addresses of the aggregator, for rules with scope: global: host:port[,host:port...]." placeholder:"HOST:PORT"`

	// GlobalTLS is for the calls of Global. By default the certificate to present has to be for
	// weir://region/ and the name of the region.
	GlobalTLS ClientTLS `embed:"" prefix:"global-" set:"calls=calls of the aggregator"`

	// GlobalPlain allows calls without TLS to aggregators on other machines: for a network that
	// encrypts by itself, such as a service mesh. False: without GlobalTLS.TLS an address that is
	// not on loopback (127.0.0.0/8, ::1 or localhost) is refused. In Global it is a mistake, and
	// one that Consul has is logged and not called. With GlobalTLS.TLS it has no effect.
	GlobalPlain bool `default:"false" negatable:"" help:"Call aggregators on other machines without TLS: for networks that encrypt by themselves."`
}

// Check names every field that is out of range, and the range.
func (a *Above) Check() error {
	var errs []error
	for _, address := range a.Global {
		errs = append(errs, settings.Address("global", address),
			settings.Refuse(a.refuses(address), "global: calls of %q would have neither TLS nor authentication, which is for loopback only; %s", address, plainRemedy))
	}
	return errors.Join(append(errs,
		a.GlobalTLS.check("global"),
		settings.Refuse(len(a.Global) > 0 && a.Region == "", "region: is missing; the aggregator needs the name of the region that asks: give one, such as --region eu"),
		settings.Refuse(a.Region != "" && !rule.IsRegion(a.Region), "region: %.64q is no name of a region; give one of %s", a.Region, rule.RegionForm),
	)...)
}

// answersWithin is how long the aggregator may take in an ordinary hour: the way around the
// world and back.
const answersWithin = 250 * time.Millisecond

// useAbove counts rules with scope: global in the tier above, behind a lease cache.
func (t *Tier) useAbove(above *Above) error {
	if t.alone = len(above.Global) == 0 && t.consul == nil; t.alone {
		return nil
	}
	secure, err := above.GlobalTLS.load("global", t.Metrics, t.Log)
	if err != nil {
		return err
	}
	above.warnPlain(above.Global, t.Log)
	c := t.store
	keeper := t.newKeeper(above.Region)
	store, err := client.New(client.Config{
		Reserve:   keeper,
		Addresses: above.Global, Region: above.Region, TLS: secure, ServerName: above.GlobalTLS.TLSName, Metrics: t.Metrics, Tracer: t.otlp.Tracer, Log: t.Log,
		Rules: func() (string, uint64) { return t.Service.RulesVersion() },
	})
	if err != nil {
		return err
	}
	c.far = leasecache.New(leasecache.Config{
		Store: store, MaxKeys: t.cfg.MaxKeys, MaxBytes: int64(t.cfg.MaxMemory), Timeout: client.DefaultTimeout, Answers: answersWithin,
		Replicas: func() int { return c.replicas() },
	})
	t.Metrics.CounterFunc("weir_global_waited_total", "Units of requests that waited for the aggregator.", func() float64 { return float64(c.far.Stats().Waited) })
	all := upstream.New(upstream.Config{
		Far: c.far, Own: c.Store, Raw: c.raw, Keeper: keeper, Lacks: store.Lacks, Metrics: t.Metrics,
	})
	c.Store, c.fall = engine.ByScope(c.Store, all), engine.FallByScope(c.fall, all)
	c.run = append(c.run, store.Run, c.far.Run, keeper.Run)
	if len(above.Global) == 0 {
		t.findAggregators(above, store.Move)
	}
	return nil
}

// refuseGlobal refuses rules that nobody would count for all regions.
func refuseGlobal(set *rule.Set) error {
	for i := range set.Len() {
		if r := set.Rule(i); r.Scope == rule.ScopeGlobal && r.Mode != rule.Off {
			return errors.New("rule " + r.Name + ": scope: global is counted by an aggregator, and this region has none; give --global HOST:PORT or --consul HOST:PORT, or write scope: region")
		}
	}
	return nil
}
