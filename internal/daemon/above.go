package daemon

import (
	"errors"
	"log/slog"
	"net"
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
	// digits, -, . or _, which are compared byte by byte. The aggregator groups its holders by it.
	// Required with Global and with Consul, where replicas register as weir-regional- and this name.
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

// plainRemedy is what to change where calls of an address are refused for want of TLS.
const plainRemedy = "give --global-tls and its certificates (--global-tls-ca, --global-tls-cert, --global-tls-key), or --global-plain if the network encrypts by itself"

// refuses reports whether calls of an address would leave this machine without TLS, and may not.
func (a *Above) refuses(address string) bool {
	return !a.GlobalTLS.TLS && !a.GlobalPlain && !onLoopback(address)
}

// onLoopback reports whether host:port is surely on this machine. The only such name is localhost:
// what another name resolves to may change at any time.
func onLoopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// usable are those of the addresses in Consul that may be called. The others are logged.
func (a *Above) usable(addresses []string, log *slog.Logger) []string {
	var usable []string
	for _, address := range addresses {
		if a.refuses(address) {
			log.Error("aggregator in consul is not called: its address is not on this machine and the calls would be without TLS", "remedy", plainRemedy, "address", address)
			continue
		}
		usable = append(usable, address)
	}
	a.warnPlain(usable, log)
	return usable
}

// warnPlain warns of calls without TLS.
func (a *Above) warnPlain(addresses []string, log *slog.Logger) {
	if a.GlobalTLS.TLS {
		return
	}
	for _, address := range addresses {
		who := "every process of this machine can make them"
		if !onLoopback(address) {
			who = "whoever is on their way can read and change them, unless the network encrypts by itself"
		}
		log.Warn("calls of the aggregator have neither TLS nor authentication", "risk", who, "remedy", "give --global-tls", "address", address)
	}
}

// answersWithin is how long the aggregator may take in an ordinary hour: the way around the
// world and back.
const answersWithin = 250 * time.Millisecond

// openUpstream counts rules with scope: global in the tier above, behind a lease cache. What the
// tier above does not decide comes out of the region's reserve.
func (t *Tier) openUpstream(above *Above) error {
	secure, err := above.GlobalTLS.load("global", t.Metrics, t.Log)
	if err != nil {
		return err
	}
	above.warnPlain(above.Global, t.Log)
	keeper := t.newKeeper(above.Region)
	remote, err := client.New(client.Config{
		Addresses: above.Global, Region: above.Region, Rules: t.rules.version, Reserve: keeper,
		TLS: secure, ServerName: above.GlobalTLS.TLSName, Metrics: t.Metrics, Tracer: t.Tracer, Log: t.Log,
	})
	if err != nil {
		return err
	}
	t.remote = remote
	cache := leasecache.New(leasecache.Config{
		Store: remote, MaxKeys: t.cfg.MaxKeys, MaxBytes: t.room.Table, Timeout: client.DefaultTimeout, Answers: answersWithin,
		Replicas: t.counters.replicas,
	})
	t.Metrics.CounterFunc("weir_aggregator_waited_total", "Units of requests that waited for the aggregator.", func() float64 { return float64(cache.Stats().Waited) })
	all := upstream.New(upstream.Config{
		Far: cache, Own: t.store, Raw: t.counters.Store, Keeper: keeper, Lacks: remote.Lacks, Metrics: t.Metrics,
	})
	t.store, t.fall = engine.ByScope(t.store, all), engine.FallByScope(t.fall, all)
	t.caches, t.behind = append(t.caches, cache), append(t.behind, remote.Run, cache.Run, keeper.Run)
	if len(above.Global) == 0 {
		t.findAggregators(above, remote.Move)
	}
	return nil
}
