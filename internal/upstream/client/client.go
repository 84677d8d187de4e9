package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	random "math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/certs"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/repeat"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/telemetry"
)

// DefaultTimeout bounds a call of the aggregator. It is the default timeout of a rule with
// scope: global.
const DefaultTimeout = 500 * time.Millisecond

// Config is what a store is made of.
type Config struct {
	// Addresses of the aggregator, as host:port. They share their counters, or are used one
	// at a time: the next one is called when one does not answer. None: [Store.Move] gives
	// them, and until then all asks are Unavailable.
	Addresses []string
	// Region is the name of the region that this process is a replica of, 1 to 64 bytes.
	Region string
	// Timeout bounds a call; 0 means DefaultTimeout.
	Timeout time.Duration
	// Rules returns the version and the revision of the rules in force; nil: there are none.
	Rules func() (version string, revision uint64)
	// Reserve is what the region states of its reserve; nil: it has none.
	Reserve Reserve
	// TLS has the certificates with which the calls are made; nil: without TLS. ServerName is
	// the name that the certificate of the aggregator must have; empty: that of the address.
	TLS        *certs.Set
	ServerName string
	// Transport makes the calls; nil: HTTP/2.
	Transport http.RoundTripper
	// Jitter is a percentage of a pause, which keeps replicas from asking in step; nil means 90 to 110, at random.
	Jitter  func() lease.Percent
	Metrics *telemetry.Registry // nil: metrics go nowhere
	Tracer  *telemetry.Tracer   // makes the spans of calls; nil: there are none
	Log     *slog.Logger        // nil: nothing is logged
}

// Reserve is the record of the region's reserve.
type Reserve interface {
	// Statement is what a call states; false: nothing.
	Statement() (reserve.Statement, bool)
	// Replied takes the reply to a call that was sent at that time.
	Replied(sent time.Time, p reserve.Reply)
	// Rejected takes that a statement of the record with this ID is impossible.
	Rejected(id uint64, reason string)
}

// Store is the aggregator as a store. Create it with [New]. It is safe for concurrent use;
// [Store.Run] has to run beside it.
type Store struct {
	config     Config // complete
	holder     [16]byte
	scheme     string // begins the address of a call
	aggregator *aggregator
	metrics    *metrics

	seq      atomic.Uint64
	ack      atomic.Uint64        // the largest seq that was answered
	worker   atomic.Uint64        // the name of the calls beside holder; see [Store.rename]
	renamed  repeat.OncePerMinute // was logged
	rejected repeat.OncePerMinute // was logged: the region's statements are
	unknown  sync.Map             // names of rules that the aggregator does not have, by its last answer

	watchUntil atomic.Pointer[time.Time] // somebody watches at the aggregator until then; nil: nobody does

	mu        sync.Mutex
	gathered  []*parcel // to travel with the next call
	wantCount int       // of gathered
}

// New makes a store. It makes no call yet.
func New(c Config) (*Store, error) {
	if !rule.IsRegion(c.Region) {
		return nil, errors.New("region: the replica needs a name of " + rule.RegionForm)
	}
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	c.Metrics, c.Log = cmp.Or(c.Metrics, telemetry.NewRegistry("")), cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Rules == nil {
		c.Rules = func() (string, uint64) { return "", 0 }
	}
	if c.Transport == nil {
		c.Transport = newTransport(c.TLS, c.ServerName)
	}
	if c.Jitter == nil {
		c.Jitter = func() lease.Percent { return lease.Percent(90 + random.IntN(21)) }
	}
	s := &Store{config: c, metrics: newMetrics(c.Metrics)}
	_, _ = rand.Read(s.holder[:]) // never fails
	s.aggregator = newAggregator(c.Addresses, c.Transport, c.Jitter)
	if s.scheme = "http://"; c.TLS != nil {
		s.scheme = "https://"
	}
	c.Metrics.GaugeFunc("weir_aggregator_up", "1 while the aggregator answers.", func() float64 {
		return float64(limit.Bit(!s.aggregator.unavailable()))
	})
	return s, nil
}

// Move replaces the addresses of the aggregator. The one that is called now is kept if it is
// among them. An empty list changes nothing: the aggregator may still answer at the addresses of
// before.
func (s *Store) Move(addresses []string) {
	if len(addresses) > 0 {
		s.aggregator.move(addresses)
	}
}

// dialTime bounds making a connection. A probe begins every 100 ms while the aggregator is unavailable, and a
// transport goes on dialling when the call has ended.
const dialTime = time.Second

// newTransport makes connections with HTTP/2, each with the certificates that are in force.
func newTransport(secure *certs.Set, name string) http.RoundTripper {
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(secure == nil)
	protocols.SetHTTP2(secure != nil)
	plain := certs.Dialer{Timeout: dialTime}
	encrypted := certs.Dialer{Secure: secure.Client(name, "h2"), Timeout: dialTime}
	return &http.Transport{
		Protocols:      &protocols,
		HTTP2:          &http.HTTP2Config{SendPingTimeout: 5 * time.Second, PingTimeout: time.Second},
		DialContext:    plain.DialContext,
		DialTLSContext: encrypted.DialContext,
	}
}

// RuleUnknown reports whether the aggregator does not have a rule, by its last answer on it.
func (s *Store) RuleUnknown(rule string) bool {
	_, unknown := s.unknown.Load(rule)
	return unknown
}

// Acquire asks the aggregator. While that does not answer, all asks are Unavailable at once.
func (s *Store) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	for i := range grants {
		grants[i] = lease.Grant{Status: lease.Unavailable}
	}
	if s.aggregator.unavailable() || !countsUnits(asks) {
		s.metrics.rejected.Add(float64(len(asks)))
		return
	}
	p := newParcel(asks, grants)
	p.spans = telemetry.Waiting(ctx)
	s.gather(p)
	select {
	case <-p.done:
	case <-ctx.Done():
	}
	p.leave()
}

// countsUnits reports whether no ask is for slots or resets a counter: that the aggregator does for its own operators.
// Who looks gets what a want of zeros does.
func countsUnits(asks []engine.Ask) bool {
	return !slices.ContainsFunc(asks, func(a engine.Ask) bool {
		return a.Op == engine.Reset || a.Policy.Limit.Concurrent()
	})
}

// metrics are the store's instruments.
type metrics struct {
	calls    *telemetry.CounterVec
	wants    telemetry.Histogram
	seconds  telemetry.Histogram
	rejected telemetry.Counter
	unknown  telemetry.Counter
}

func newMetrics(r *telemetry.Registry) *metrics {
	return &metrics{
		calls:    r.Counters("weir_aggregator_calls_total", "Calls of the aggregator: answered, timed_out, failed (no connection, or an error), malformed, or dropped (nothing was applied because of its number).", "result"),
		wants:    r.Histogram("weir_aggregator_wants", "Wants per call of the aggregator; 0 for a heartbeat.", telemetry.Doubling(1, 11)),
		seconds:  r.Histogram("weir_aggregator_seconds", "Time until the aggregator answered a call.", telemetry.Doubling(1e-3, 11)),
		rejected: r.Counter("weir_aggregator_unsent_total", "Asks that were not sent, because the aggregator did not answer just before."),
		unknown:  r.Counter("weir_aggregator_unknown_rule_total", "Asks for a rule that the aggregator does not have: its rules are late."),
	}
}
