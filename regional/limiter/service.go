package limiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/quotapb/wire"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/telemetry"
)

// ErrTooManyHolders refuses a call of a holder that there is no room to remember.
var ErrTooManyHolders = errors.New("holder: too many holders called within 10 s to remember another one; raise max_holders, or look for a holder that makes a new id for every call")

// Config is what a [Service] is made of.
type Config struct {
	Store   Store
	Metrics *telemetry.Registry // nil: metrics go nowhere
	// Now is the clock by which holders count as live and rules as new; nil means
	// the system's.
	Now func() limit.Micros
	// MaxHolders bounds the holders that are remembered, at least 1; 0 means
	// DefaultMaxHolders.
	MaxHolders int
	// SlotSeed keeps clients from choosing request ids that collide. All replicas of
	// a store need the same; empty: the ids are hashed all the same, and whoever
	// knows how can make one request's slots pass for another's.
	SlotSeed string
	// NoLearning makes counters begin fresh after a restart, even if holders still
	// have leases of the life before: at most one more limit is admitted.
	NoLearning bool
}

// DefaultMaxHolders is some 100 bytes each.
const DefaultMaxHolders = 10_000

// Service answers the calls of holders. It is safe for concurrent use and starts
// no goroutine.
type Service struct {
	store   Store
	now     func() limit.Micros
	learn   bool
	holders *holders
	seed    string
	metrics *metrics
	rules   atomic.Pointer[catalog]
	calls   sync.Pool // of *call
}

// call is the memory of one call, used again for the next one.
type call struct {
	request  wire.Request
	response wire.Response
	in, out  []byte // the encoded messages

	asks   []Ask
	index  []int32 // of each ask's want in the request
	grants []lease.Grant
}

// NewService makes a service without rules: until [Service.SetRules] every want
// is answered as unknown_rule.
func NewService(c Config) *Service {
	if c.Now == nil {
		c.Now = func() limit.Micros { return limit.Micros(time.Now().UnixMicro()) }
	}
	if c.Metrics == nil {
		c.Metrics = telemetry.NewRegistry("")
	}
	if c.MaxHolders == 0 {
		c.MaxHolders = DefaultMaxHolders
	}
	s := &Service{
		store:   c.Store,
		now:     c.Now,
		learn:   !c.NoLearning,
		holders: newHolders(c.MaxHolders),
		seed:    c.SlotSeed,
		metrics: newMetrics(c.Metrics),
		calls:   sync.Pool{New: func() any { return new(call) }},
	}
	s.rules.Store(noRules)
	c.Metrics.GaugeFunc("weir_holders", "Holders that called within the last 10 s.", func() float64 { return float64(s.Holders()) })
	return s
}

// SetRules replaces the rules. Calls that are being answered end by the old ones.
// It must not run twice at the same time. Rules that are too large for one message
// are an error, and change nothing.
func (s *Service) SetRules(set *rule.Set) error {
	if n := len(set.Encode()); n > maxRules {
		return fmt.Errorf("rules: %d bytes in compiled form, at most %d fit into one message; make fewer or shorter rules", n, maxRules)
	}
	before := s.rules.Load()
	after := newCatalog(set, before, s.now(), s.metrics)
	s.rules.Store(after)
	s.metrics.forget(before, after)
	return nil
}

// maxRules is what is left for the rules in their message.
const maxRules = wire.MaxRules - 1024

// Rules returns the version of the rules and their compiled form; an empty version
// before [Service.SetRules]. The bytes must not be changed.
func (s *Service) Rules() (version string, compiled []byte) {
	c := s.rules.Load()
	return c.version, c.encoded
}

// Policy is the limit of a rule's variant in the rules in force; nil if there is
// none. A caller that keeps it goes on with rules that may have been replaced.
func (s *Service) Policy(rule string, variant uint32) *Policy {
	return s.rules.Load().policy(rule, variant)
}

// Holders is how many holders called this replica within the last 10 s.
func (s *Service) Holders() int { return s.holders.count(s.now()) }

// acquire answers c.request in c.response. An error means that nothing was
// applied; it is a *RequestError, a *ProtocolError or ErrTooManyHolders.
func (s *Service) acquire(ctx context.Context, c *call) error {
	rules := s.rules.Load()
	if err := c.prepare(rules); err != nil {
		return err
	}
	r, now := &c.request, s.now()
	fresh, known := s.holders.accept(HolderID(r.Holder), r.Seq, now)
	if !known {
		return ErrTooManyHolders
	}
	s.metrics.callWants.Observe(float64(len(r.Wants)))
	epoch := s.store.Epoch()
	if fresh {
		if r.Epoch != 0 && r.Epoch != epoch && s.learn {
			s.store.Learn()
			s.metrics.learning.Set(1)
		}
		s.store.Acquire(ctx, c.asks, c.grants)
		s.count(c, rules)
	} else {
		s.metrics.duplicates.Inc()
		for i := range c.grants {
			c.grants[i] = lease.Grant{Status: lease.Unavailable}
		}
	}
	c.word()
	c.response.Protocol = wire.Protocol
	c.response.Epoch = epoch
	c.response.RulesVersion = rules.version
	c.response.Holders = uint32(s.holders.count(now))
	c.response.Seq = r.Seq
	return nil
}

// prepare checks the request and turns its wants into asks. Those that name no
// rule are answered already.
func (c *call) prepare(rules *catalog) error {
	r := &c.request
	if err := check(r); err != nil {
		return err
	}
	c.asks, c.index = c.asks[:0], c.index[:0]
	c.response.Grants = slices.Grow(c.response.Grants[:0], len(r.Wants))[:len(r.Wants)]
	group, scattered := uint32(0), false
	for i := range r.Wants {
		w := &r.Wants[i]
		p := rules.policy(w.Rule, w.Variant)
		if p == nil {
			c.response.Grants[i] = wire.Grant{Status: wire.StatusUnknownRule}
			continue
		}
		scattered = scattered || w.Group < group
		group = w.Group
		c.asks = append(c.asks, askOf(r, w, p))
		c.index = append(c.index, int32(i))
	}
	if scattered {
		c.gather()
	}
	c.grants = slices.Grow(c.grants[:0], len(c.asks))[:len(c.asks)]
	return checkGroups(c.asks, c.index)
}

// askOf is a want as the store sees it. What is given back of a counter of
// another shape is dropped: that counter is not asked any more.
func askOf(r *wire.Request, w *wire.Want, p *Policy) Ask {
	a := Ask{Policy: p, Key: w.Key, Group: w.Group, Want: lease.Want{
		Need:      int64(w.Need),
		Waiting:   int64(w.Waiting),
		Want:      int64(w.Want),
		Unused:    int64(w.Unused),
		Lease:     uint32(w.Lease),
		Overdrawn: int64(w.Overdrawn),
		Denied:    int64(w.Denied),
		Fresh:     w.Fresh,
		Next:      w.Next,
	}}
	if uint32(w.Lease>>32) != p.Limit.Fingerprint() {
		a.Want.Unused = 0
	}
	if p.Limit.Spec().Algorithm == limit.Concurrency {
		a.Holder, a.Seq, a.Holding = slotHolder(r.Holder, w.Lease), r.Seq, int64(w.Holding)
	}
	return a
}

// slotHolder names a holder of slots: a process has one for each of its workers,
// told apart by the lease field.
func slotHolder(holder []byte, worker uint64) uint64 {
	h := newFNV()
	for _, b := range holder {
		h.octet(b)
	}
	h.number(worker)
	return max(uint64(h), 1)
}

// gather makes the asks of each group adjacent. The order of others is kept.
func (c *call) gather() {
	order := make([]int, len(c.asks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(int64(c.asks[a].Group) - int64(c.asks[b].Group)) })
	asks, index := make([]Ask, len(order)), make([]int32, len(order))
	for to, from := range order {
		asks[to], index[to] = c.asks[from], c.index[from]
	}
	c.asks, c.index = asks, index
}

// count counts what was asked and answered.
func (s *Service) count(c *call, rules *catalog) {
	for i := range c.asks {
		rules.rules[c.asks[i].Policy.Rule].counts.count(&c.asks[i], &c.grants[i])
	}
	if unknown := len(c.request.Wants) - len(c.asks); unknown > 0 {
		s.metrics.unknown.Add(float64(unknown))
	}
}

// word puts the grants into the response, in the order of the wants.
func (c *call) word() {
	for i := range c.asks {
		g, a := &c.grants[i], &c.asks[i]
		out := &c.response.Grants[c.index[i]]
		*out = wire.Grant{
			Status:       wire.Status(g.Status),
			Granted:      uint64(g.Granted),
			Lease:        uint64(a.Policy.Limit.Fingerprint())<<32 | uint64(g.Lease),
			StartsInMs:   uint64(g.StartsIn),
			TTLMs:        uint64(g.TTL),
			RetryAfterMs: uint64(g.RetryAfter),
			AskAfterMs:   uint64(g.AskAfter),
			Limit:        uint64(g.Limit),
			Remaining:    uint64(g.Remaining),
			ResetMs:      uint64(g.Reset),
		}
		if a.Holder != 0 {
			out.Lease = c.request.Wants[c.index[i]].Lease // slots are not leased for a period
		}
		if g.RetryAfter >= lease.Millis(limit.Never/limit.Millisecond) {
			out.RetryAfterMs = uint64(limit.Never)
		}
	}
}
