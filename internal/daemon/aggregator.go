package daemon

import (
	"errors"
	"log/slog"
	"time"

	"github.com/weirlimit/weir/internal/admin"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/settings"
	"github.com/weirlimit/weir/internal/upstream"
	"github.com/weirlimit/weir/internal/upstream/client"
)

// AggregatorCalls has the settings of a tier that is a holder of another one.
type AggregatorCalls struct {
	// Region is the name of this region, the same at all of its replicas: 1 to 64 letters,
	// digits, -, . or _, which are compared byte by byte. The aggregator groups its holders by it.
	// Required with Aggregator and with Consul, where replicas register as weir-regional- and this name.
	Region string `help:"Name of this region. Required with --aggregator and --consul." placeholder:"NAME"`

	// Aggregator has the addresses of the aggregator, as host:port with commas between: rules
	// with scope: global are counted there. With several, the next is called when one does
	// not answer. Without AggregatorTLS.TLS they must be on loopback, or AggregatorPlain be set. Empty:
	// those that Consul has, of which one at a time is called; without Consul a rule with
	// scope: global is a mistake.
	Aggregator []string `help:"Addresses of the aggregator, for rules with scope: global: host:port[,host:port...]." placeholder:"HOST:PORT"`

	// AggregatorTLS is for the calls of Aggregator. By default the certificate to present has to be for
	// weir://region/ and the name of the region.
	AggregatorTLS ClientTLS `embed:"" prefix:"aggregator-" set:"calls=calls of the aggregator"`

	// AggregatorPlain allows calls without TLS to aggregators on other machines: for a network that
	// encrypts by itself, such as a service mesh. False: without AggregatorTLS.TLS an address that is
	// not on loopback (127.0.0.0/8, ::1 or localhost) is rejected. In Aggregator it is a mistake, and
	// one that Consul has is logged and not called. With AggregatorTLS.TLS it has no effect.
	AggregatorPlain bool `default:"false" negatable:"" help:"Call aggregators on other machines without TLS: for networks that encrypt by themselves."`
}

// Check names every field that is out of range, and the range.
func (a *AggregatorCalls) Check() error {
	var errs []error
	for _, address := range a.Aggregator {
		errs = append(errs, settings.Address("aggregator", address),
			settings.Reject(a.rejects(address), "aggregator: calls of %q would have neither TLS nor authentication, which is for loopback only; %s", address, plainRemedy))
	}
	return errors.Join(append(errs,
		a.AggregatorTLS.check("aggregator"),
		settings.Reject(len(a.Aggregator) > 0 && a.Region == "", "region: is missing; the aggregator needs the name of the region that asks: give one, such as --region eu"),
		settings.Reject(a.Region != "" && !rule.IsRegion(a.Region), "region: %.64q is no name of a region; give one of %s", a.Region, rule.RegionForm),
	)...)
}

// plainRemedy is what to change where calls of an address are rejected for want of TLS.
const plainRemedy = "give --aggregator-tls and its certificates (--aggregator-tls-ca, --aggregator-tls-cert, --aggregator-tls-key), or --aggregator-plain if the network encrypts by itself"

// rejects reports whether calls of an address would leave this machine without TLS, and may not.
func (a *AggregatorCalls) rejects(address string) bool {
	return !a.AggregatorTLS.TLS && !a.AggregatorPlain && !admin.IsLoopback(address)
}

// usable are those of the addresses in Consul that may be called. The others are logged.
func (a *AggregatorCalls) usable(addresses []string, log *slog.Logger) []string {
	var usable []string
	for _, address := range addresses {
		if a.rejects(address) {
			log.Error("aggregator in consul is not called: its address is not on this machine and the calls would be without TLS", "remedy", plainRemedy, "address", address)
			continue
		}
		usable = append(usable, address)
	}
	a.warnPlain(usable, log)
	return usable
}

// warnPlain warns of calls without TLS.
func (a *AggregatorCalls) warnPlain(addresses []string, log *slog.Logger) {
	if a.AggregatorTLS.TLS {
		return
	}
	for _, address := range addresses {
		who := "every process of this machine can make them"
		if !admin.IsLoopback(address) {
			who = "whoever is on their way can read and change them, unless the network encrypts by itself"
		}
		log.Warn("calls of the aggregator have neither TLS nor authentication", "risk", who, "remedy", "give --aggregator-tls", "address", address)
	}
}

// answersWithin is how long the aggregator may take in an ordinary hour: the way around the
// world and back.
const answersWithin = 250 * time.Millisecond

// openUpstream counts rules with scope: global at the aggregator, behind a lease cache. What the
// aggregator does not decide comes out of the region's reserve.
func (t *Tier) openUpstream(calls *AggregatorCalls) error {
	secure, err := calls.AggregatorTLS.load("aggregator", t.Metrics, t.Log)
	if err != nil {
		return err
	}
	calls.warnPlain(calls.Aggregator, t.Log)
	keeper := t.newKeeper(calls.Region)
	aggregator, err := client.New(client.Config{
		Addresses: calls.Aggregator, Region: calls.Region, Rules: t.rulesVersion, Reserve: keeper,
		TLS: secure, ServerName: calls.AggregatorTLS.TLSName, Metrics: t.Metrics, Tracer: t.Tracer, Log: t.Log,
	})
	if err != nil {
		return err
	}
	t.aggregator = aggregator
	cache := leasecache.New(leasecache.Config{
		Store: aggregator, MaxKeys: t.cfg.MaxKeys, MaxBytes: t.budget.Table, Timeout: client.DefaultTimeout, Answers: answersWithin,
		Replicas: t.counters.replicas,
	})
	t.Metrics.CounterFunc("weir_aggregator_waited_total", "Units of requests that waited for the aggregator.", func() float64 { return float64(cache.Stats().Waited) })
	all := upstream.New(upstream.Config{
		Aggregator: cache, Own: t.store, Raw: t.counters.Store, Keeper: keeper, RuleUnknown: aggregator.RuleUnknown, Metrics: t.Metrics,
	})
	t.store, t.fall = engine.ByScope(t.store, all), engine.FallByScope(t.fall, all)
	t.caches, t.behind = append(t.caches, cache), append(t.behind, aggregator.Run, cache.Run, keeper.Run)
	if len(calls.Aggregator) == 0 {
		t.findAggregators(calls, aggregator.Move)
	}
	return nil
}
