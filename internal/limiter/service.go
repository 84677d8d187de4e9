package limiter

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/quotapb/bridge"
	"github.com/weirlimit/weir/internal/quotapb/wire"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/telemetry"
)

// ErrTooManyHolders refuses a call of a holder that there is no room to remember.
var ErrTooManyHolders = errors.New("holder: too many holders and workers of them called within 10 s to remember another one; raise max_holders, or look for a holder that makes a new id for every call")

// Config is what a [Service] is made of.
type Config struct {
	Store   Store
	Metrics *telemetry.Registry // nil: metrics go nowhere
	// Now is the clock by which holders count as live and rules as new; nil means
	// the system's.
	Now func() limit.Micros
	// MaxHolders bounds the workers of holders that are remembered, at least 1; 0
	// means DefaultMaxHolders.
	MaxHolders int
	// SlotSeed keeps clients from choosing request ids that collide. All replicas of
	// a store need the same; empty: the ids are hashed all the same, and whoever
	// knows how can make one request's slots pass for another's.
	SlotSeed string
	// Former are the epochs of lives of the store before this one, as far as they are
	// known: a holder that presents another one has dealt with another store.
	Former []uint64
	// Census is how many holders call the replicas of the region, as far as the store
	// knows; nil, or 0: nobody knows, and those that call this replica are all.
	Census func() int
	// NoLearning keeps from the store what holders remember of counters that it lost.
	NoLearning bool
}

// DefaultMaxHolders is some 500 bytes each.
const DefaultMaxHolders = 100_000

// Service answers the calls of holders. It is safe for concurrent use and starts
// no goroutine.
type Service struct {
	store   Store
	now     func() limit.Micros
	lives   lives
	census  func() int
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

	holder  HolderID
	asks    []Ask
	index   []int32 // of each ask's want in the request
	unknown int     // wants of rules that are not there
	grants  []lease.Grant
}

// release keeps the memory of a call for the next one, unless it is much: a call of the
// largest size must not keep that much for each call that is under way at once.
func (s *Service) release(c *call) {
	const mostBytes, mostWants = 64 << 10, 512
	if cap(c.in) <= mostBytes && cap(c.out) <= mostBytes && cap(c.request.Wants) <= mostWants {
		s.calls.Put(c)
	}
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
		census:  c.Census,
		lives:   lives{former: c.Former, heed: !c.NoLearning},
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
	return s.rules.Load().policy(rule, variant, 0)
}

// Holders is how many holders called this replica within the last 10 s.
func (s *Service) Holders() int { return s.holders.count(s.now()) }

// Live returns hashes of the holders that called this replica within that time.
func (s *Service) Live(within time.Duration) []uint64 {
	return s.holders.lately(s.now(), limit.Micros(within.Microseconds()))
}

// sharers is how many holders call the region, by all that is known here.
func (s *Service) sharers(now limit.Micros) int {
	n := s.holders.count(now)
	if s.census != nil {
		n = max(n, s.census())
	}
	return n
}

// acquire answers c.request in c.response. An error means that nothing was
// applied; it is a *RequestError, a *ProtocolError or ErrTooManyHolders.
func (s *Service) acquire(ctx context.Context, c *call) error {
	rules := s.rules.Load()
	if err := check(&c.request); err != nil {
		return err
	}
	s.prepare(c, rules)
	r, now := &c.request, s.now()
	fresh, known := s.holders.accept(c.holder, r.Worker, r.Seq, now)
	if !known {
		return ErrTooManyHolders
	}
	s.metrics.callWants.Observe(float64(len(r.Wants)))
	epoch := s.store.Epoch()
	if fresh {
		if former := s.formerOf(c, epoch, now); former != 0 {
			for i := range c.asks {
				c.asks[i].Former = former
			}
		}
		s.store.Acquire(ctx, c.asks, c.grants)
		s.count(c, rules)
		s.returnUnheard(ctx, c)
	} else {
		s.metrics.duplicates.Inc()
		for i := range c.grants {
			c.grants[i] = lease.Grant{Status: lease.Unavailable}
		}
	}
	c.answer()
	c.response.Protocol, _ = wire.Common(r.Protocol, r.ProtocolMax)
	c.response.Epoch = epoch
	c.response.RulesVersion, c.response.RulesRevision = rules.version, rules.revision
	if r.RulesRevision > rules.revision && r.RulesVersion != rules.version {
		s.metrics.behind.Inc()
	}
	c.response.Holders = uint32(s.sharers(now))
	c.response.Seq = r.Seq
	return nil
}

// prepare turns the wants of a call that was checked into asks. Those that name no
// rule are answered already, and so are those that are out of range.
func (s *Service) prepare(c *call, rules *catalog) {
	r := &c.request
	c.holder = holderOf(r)
	r.Holder = c.holder[:]
	c.asks, c.index, c.unknown = c.asks[:0], c.index[:0], 0
	c.response.Grants = slices.Grow(c.response.Grants[:0], len(r.Wants))[:len(r.Wants)]
	group, scattered := uint32(0), false
	var broken []uint32 // groups of which a want is out of range
	for i := range r.Wants {
		w := &r.Wants[i]
		if field := bridge.OutOfRange(w); field != "" {
			s.reject(c, int32(i), field)
			if w.Group != 0 {
				broken = append(broken, w.Group)
			}
			continue
		}
		p := rules.policy(w.Rule, w.Variant, w.Override)
		if p == nil {
			c.response.Grants[i] = wire.Grant{Status: wire.StatusUnknownRule}
			c.unknown++
			continue
		}
		scattered = scattered || w.Group < group
		group = w.Group
		c.asks = append(c.asks, c.askOf(i, w, p))
		c.index = append(c.index, int32(i))
	}
	if scattered {
		c.gather()
	}
	s.rejectGroups(c, broken)
	c.grants = slices.Grow(c.grants[:0], len(c.asks))[:len(c.asks)]
}

// askOf is want i as the store sees it.
func (c *call) askOf(i int, w *wire.Want, p *Policy) Ask {
	r := &c.request
	w.Key = rule.ShortKey(w.Key) // filters of an older release send longer ones
	want, holding := bridge.WantFromWire(p.Limit, w)
	want.Debt = DebtID(r.Holder, want.Debt)
	a := Ask{Policy: p, Key: w.Key, Group: w.Group, Want: want}
	if p.Limit.Spec().Algorithm == limit.Concurrency {
		a.Holder, a.Seq, a.Holding = slotHolder(r, w.Lease), r.Seq, holding
	} else if a.Want.Unused > 0 {
		a.Returned = []Returned{{ReturnID(r.Holder, r.Worker, r.Seq, i), a.Want.Unused}}
	}
	return a
}

// DebtID names a debt among those of all holders, so that the replicas of a store
// and the store itself know it again; 0 has no name.
func DebtID(holder []byte, debt uint64) uint64 {
	if debt == 0 {
		return 0
	}
	h := newFNV()
	for _, b := range holder {
		h.octet(b)
	}
	h.number(debt)
	return max(uint64(h), 1)
}

// ReturnID names what want i of a call gives back: the same at whatever replica a copy of
// the call arrives, and at no other want.
func ReturnID(holder []byte, worker, seq uint64, i int) uint64 {
	h := newFNV()
	for _, b := range holder {
		h.octet(b)
	}
	h.number(worker)
	h.number(seq)
	h.number(uint64(i))
	return uint64(h)
}

// slotHolder names a holder of slots: a process has one for each of its workers,
// told apart by the lease field, which is the number of the worker that calls. The
// order of its statements is that worker's sequence. A region of the release before
// takes the same name, so that replicas of both may count the same slots.
func slotHolder(r *wire.Request, worker uint64) uint64 {
	name := HolderID(r.Holder)
	if r.Worker != 0 && binary.LittleEndian.Uint64(name[8:]) == 0 {
		binary.LittleEndian.PutUint64(name[8:], worker)
	}
	h := newFNV()
	for _, b := range name {
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
	if c.unknown > 0 {
		s.metrics.unknown.Add(float64(c.unknown))
	}
}

// answer puts the grants into the response, in the order of the wants.
func (c *call) answer() {
	for i := range c.asks {
		a, out := &c.asks[i], &c.response.Grants[c.index[i]]
		*out = bridge.GrantToWire(a.Policy.Limit, &c.grants[i])
		if a.Holder != 0 {
			out.Lease = c.request.Wants[c.index[i]].Lease // slots are not leased for a period
		}
	}
}
