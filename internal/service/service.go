// Package service checks the wants of holders, asks an [engine.Store] for them, and answers. Regions and aggregators use
// it.
//
//	handler.go     HTTP and gRPC to messages; call.go: the memory and the time of one
//	check.go       the bounds of a call
//	holders.go     the callers, whose calls are applied once, and their addresses
//	catalog.go     the rules in force, as policies
//	counters.go    single counters for operators
//	exchange.go    one call of Acquire; slot_call.go: one for the slots of a request; report.go: one of Report
//	metrics.go     metrics; notices.go: single calls in the log and as spans
package service

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/service/secrets"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/wire"
)

// errTooManyHolders rejects a call of a holder for which there is no room.
var errTooManyHolders = &rejection{errors.New("holder: the holders and workers that called within 10 s fill the memory for callers; raise max_holders or max_memory, or look for a holder that makes a new id for every call"), connect.CodeResourceExhausted, true}

// errTooManyCalls rejects a call for which there is no memory.
var errTooManyCalls = &rejection{errors.New("call: calls in flight fill the memory for calls, or the calls of this address fill a quarter of it; raise max_memory if many PoPs call through one gateway, or find out why answers are slow"), connect.CodeResourceExhausted, true}

// errTooManyOfAddress rejects a call of a holder whose address has its most holders.
var errTooManyOfAddress = &rejection{errors.New("holder: too many holders called from this address within 10 s; raise max_holders_per_address if many PoPs call through one gateway, or look for a holder that makes a new id for every call"), connect.CodeResourceExhausted, true}

// Config is what a [Service] is made of.
type Config struct {
	Store   engine.Store
	Metrics *telemetry.Registry // nil: metrics go nowhere
	// Now is the clock by which holders count as live; nil means the system's.
	Now func() limit.Micros
	// MaxHolders bounds the workers of holders that are remembered, at least 1; 0
	// means defaultMaxHolders.
	MaxHolders int
	// MaxHoldersPerAddress bounds the holders that call from one address, with TLS for each
	// certificate, at least 1; 0 means defaultMaxHoldersPerAddress.
	MaxHoldersPerAddress int
	// MaxCallBytes bounds the calls in flight by an estimate of the memory that they take, with a quarter for
	// each address, with TLS each certificate at one; 0: it does not.
	MaxCallBytes int64
	// SlotSeed keeps clients from choosing request ids that collide. All replicas of a
	// store need the same. If it is empty, the ids are hashed without a secret, and a client
	// that computes collisions can release the slots of another request.
	SlotSeed string
	// LiveHolders is how many holders call the replicas of the region, by the store's
	// count; nil, or 0: there is no count, and those that call this replica are all.
	LiveHolders func() int
	// Divides is true if the callers are replicas of regions, among which limits are divided.
	// Calls without a region are rejected, and rules that are not scope: global are unknown.
	Divides bool
	// Reserves hears what regions state of their reserves; nil: nobody does.
	Reserves Reserves
	// Live tells holders that somebody watches, and takes their reports; nil: nobody watches.
	Live Live
	// Share is the region's share of limits of scope global in thousandths, as PoPs are told; nil, or 0: it is not known.
	Share func() uint32
	// Tracer makes the spans of calls; nil: there are none.
	Tracer *telemetry.Tracer
	// Log gets what is wrong with callers, each kind at most once a minute; nil: nothing does.
	Log *slog.Logger
}

// defaultMaxHolders is some 500 bytes each.
const defaultMaxHolders = 100_000

// defaultMaxHoldersPerAddress allows 64 PoPs behind one address to restart all at once.
const defaultMaxHoldersPerAddress = 128

// Service answers the calls of holders. It is safe for concurrent use and starts
// no goroutine.
type Service struct {
	config  Config // complete
	holders *holders
	metrics *metrics
	notices notices
	rules   atomic.Pointer[catalog]
	changes sync.Mutex // guards the two below, and orders what replaces rules
	hashed  *rule.Set  // the rules, if secrets are for one of them; else nil
	secrets []rule.Secret
	calls   sync.Pool // of *exchange
}

// NewService makes a service without rules: until [Service.SetRules] every want
// is answered as unknown_rule.
func NewService(c Config) *Service {
	if c.Now == nil {
		c.Now = func() limit.Micros { return limit.Micros(time.Now().UnixMicro()) }
	}
	c.Metrics, c.Log = cmp.Or(c.Metrics, telemetry.NewRegistry("")), cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	if c.Share == nil {
		c.Share = func() uint32 { return 0 }
	}
	s := &Service{
		config:  c,
		holders: newHolders(cmp.Or(c.MaxHolders, defaultMaxHolders), cmp.Or(c.MaxHoldersPerAddress, defaultMaxHoldersPerAddress)),
		metrics: newMetrics(c.Metrics),
		notices: notices{log: c.Log},
		calls:   sync.Pool{New: func() any { return new(exchange) }},
	}
	s.rules.Store(noRules)
	c.Metrics.GaugeFunc("weir_holders", "Holders that called within the last 10 s.", func() float64 { return float64(s.Holders()) })
	return s
}

// SetSecrets replaces the secrets under which keys are hashed, the one in force first: holders get this one, and
// limits of single keys are found under all.
func (s *Service) SetSecrets(all []rule.Secret) error {
	s.changes.Lock()
	defer s.changes.Unlock()
	s.secrets = all
	if s.hashed == nil {
		return nil
	}
	return s.setRules(s.hashed)
}

// SetRules replaces the rules. Calls that are under way keep the old ones. Rules that are too
// large for one message, or that need secrets that there are not, are an error, and change nothing.
func (s *Service) SetRules(set *rule.Set) error {
	s.changes.Lock()
	defer s.changes.Unlock()
	return s.setRules(set)
}

// setRules is SetRules while no other change is made.
func (s *Service) setRules(set *rule.Set) error {
	if n := len(set.Encode()); n > wire.MaxCompiled {
		return fmt.Errorf("rules: %d bytes in compiled form, at most %d fit into one message; make fewer or shorter rules", n, wire.MaxCompiled)
	}
	before := s.rules.Load()
	name := hashes(set, s.config.Divides)
	if name != "" && len(s.secrets) == 0 {
		return secrets.Missing(name)
	}
	after := newCatalog(set, s.secrets, s.config.Divides, s.metrics)
	if s.hashed = nil; name != "" {
		s.hashed = set
	}
	s.rules.Store(after)
	s.metrics.forget(before, after)
	return nil
}

// InForce returns the rules without limits of single keys, and the secret that keys are hashed under; nil: there are none.
func (s *Service) InForce() (*rule.Set, *rule.Secret) {
	c := s.rules.Load()
	return c.set, c.secret
}

// RulesVersion returns the version and the revision of the rules; an empty version before
// [Service.SetRules].
func (s *Service) RulesVersion() (version string, revision uint64) {
	c := s.rules.Load()
	return c.version, c.revision
}

// Policy is the limit of a rule's variant in the rules in force, or that of a key which has one
// of its own; nil if there is none, or if percent or until of the rule's match exclude the key. With
// a nil key it is the variant's. The rules may be replaced while a caller keeps it.
func (s *Service) Policy(rule string, variant uint32, key []byte) *engine.Policy {
	c, now := s.rules.Load(), s.config.Now()
	if e := c.rules[rule]; e == nil || key != nil && !e.set.Counts(e.index, key, now) {
		return nil
	}
	return c.policy(rule, variant, 0, key, now).Policy
}

// Override is the name of the override by key whose limit a key has by a rule in force; empty if none has a name.
func (s *Service) Override(rule string, key []byte) string {
	return string(s.rules.Load().policy(rule, 0, 0, key, s.config.Now()).Name)
}

// Expanded are the rules in force that the rule of a document was expanded into; nil if there are none. An expanded name
// stands for itself.
func (s *Service) Expanded(name string) []*rule.Rule { return s.rules.Load().expanded[name] }

// Holders is how many holders called this replica within the last 10 s.
func (s *Service) Holders() int { return s.holders.count(s.config.Now()) }

// Live returns hashes of the holders that called this replica within that time.
func (s *Service) Live(within time.Duration) []uint64 {
	return s.holders.lately(s.config.Now(), limit.Micros(within.Microseconds()))
}

// sharers is how many holders share the region's limits.
func (s *Service) sharers(now limit.Micros) int {
	n := s.holders.count(now)
	if s.config.LiveHolders != nil {
		n = max(n, s.config.LiveHolders())
	}
	return n
}
