package service

import (
	"context"
	"slices"

	"github.com/weirlimit/weir/api/quota/v1/quotav1connect"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/wire"
)

// exchange is one call of Acquire: request, asks, grants and response. Its memory is used
// again for the next call.
type exchange struct {
	request  wire.Request
	response wire.Response
	in, out  []byte // the encoded messages

	origin
	parent  string // the call's traceparent header; empty: it has none
	retried bool   // an Envoy in between has sent the call before
	holder  holderID
	asks    []engine.Ask
	index   []int32 // of each ask's want in the request
	unknown int     // wants of rules that are not there
	grants  []lease.Grant
}

// release keeps the memory of a call for the next one, unless it is large: calls of the
// largest size must not keep that much for each call that is under way at once.
func (s *Service) release(x *exchange) {
	const maxBytes, maxWants = 64 << 10, 512
	x.origin = origin{}
	if cap(x.in) <= maxBytes && cap(x.out) <= maxBytes && cap(x.request.Wants) <= maxWants {
		s.calls.Put(x)
	}
}

// acquire answers x.request in x.response. An error is a *rejection.
func (s *Service) acquire(ctx context.Context, x *exchange) error {
	ctx, span := s.serve(ctx, quotav1connect.QuotaServiceAcquireProcedure, x.parent, x.request.TraceParent)
	defer span.End()
	err := s.decide(ctx, x)
	if err != nil {
		telemetry.Fail(span, err)
	} else {
		x.describe(span)
	}
	return err
}

func (s *Service) decide(ctx context.Context, x *exchange) error {
	rules := s.rules.Load()
	if err := check(&x.request, s.config.Divides); err != nil {
		return err
	}
	r, now := &x.request, s.config.Now()
	s.prepare(x, rules, now)
	fresh, err := s.holders.accept(x.holder, r.Worker, r.Seq, &x.origin, now)
	if err != nil {
		s.metrics.noRoom.Inc()
		return err
	}
	fresh = fresh && !x.retried
	s.metrics.callWants.Observe(float64(len(r.Wants)))
	x.response.Dropped = !fresh
	if fresh {
		if err := s.hear(x); err != nil {
			return err
		}
		s.config.Store.Acquire(ctx, x.asks, x.grants)
		s.count(x, rules)
		s.returnAbandoned(ctx, x)
	} else {
		x.response.Reserve = nil
		s.metrics.duplicates.Inc()
		s.notices.warn(&s.notices.repeated, x, "repeated call dropped")
		for i := range x.grants {
			x.grants[i] = lease.Grant{Status: lease.Unavailable}
		}
	}
	x.answer()
	x.response.Protocol, _ = wire.Common(r.Protocol, r.ProtocolMax)
	x.response.RulesVersion, x.response.RulesRevision = rules.version, rules.revision
	x.response.Secret = rules.fingerprint
	if r.RulesRevision > rules.revision && r.RulesVersion != rules.version {
		s.metrics.behind.Inc()
	}
	x.response.Holders, x.response.SharePerMille = uint32(s.sharers(now)), s.config.Share()
	x.response.Seq, x.response.WatchMs = r.Seq, s.watchMs()
	return nil
}

// prepare turns the wants of a checked call into asks. Wants that name no rule, or are out
// of range, or for keys without a limit, are answered already.
func (s *Service) prepare(x *exchange, rules *catalog, now limit.Micros) {
	r := &x.request
	x.holder = holderID(r.Holder)
	x.asks, x.index, x.unknown = x.asks[:0], x.index[:0], 0
	x.response.Grants = slices.Grow(x.response.Grants[:0], len(r.Wants))[:len(r.Wants)]
	group, scattered := uint32(0), false
	var broken []uint32 // groups of which a want is out of range
	for i := range r.Wants {
		w := &r.Wants[i]
		if field := w.Check(); field != "" {
			s.rejectWant(x, int32(i), field)
			if w.Group != 0 {
				broken = append(broken, w.Group)
			}
			continue
		}
		w.Key = rule.ShortKey(w.Key) // filters send it so
		own := rules.policy(w.Rule, w.Variant, w.Override, w.Key, now)
		p := own.Policy
		if p == nil {
			x.response.Grants[i] = wire.Grant{Grant: lease.Grant{Status: lease.UnknownRule}}
			x.unknown++
			continue
		}
		if p.Unlimited {
			x.response.Grants[i] = wire.Grant{Grant: own.Grant(&w.Want, now)}
			continue
		}
		x.response.Grants[i].Name = own.Name
		scattered = scattered || w.Group < group
		group = w.Group
		x.asks = append(x.asks, s.askOf(x, rules, i, w, p))
		x.index = append(x.index, int32(i))
	}
	if scattered {
		x.gather()
	}
	s.rejectGroups(x, broken)
	x.grants = slices.Grow(x.grants[:0], len(x.asks))[:len(x.asks)]
}

// askOf is want i as the store gets it.
func (s *Service) askOf(x *exchange, rules *catalog, i int, w *wire.Want, p *engine.Policy) engine.Ask {
	r := &x.request
	a := engine.Ask{Policy: p, Key: w.Key, Group: w.Group, Want: w.For(p.Limit), Region: r.Region}
	a.Want.Debt = engine.DebtID(names(r), w.Debt)
	if p.Limit.Concurrent() {
		a.Holder, a.Seq = slotHolder(r, w.Worker()), r.Seq
		return a
	}
	a.Want.Holding = 0
	most := p.Terms.MaxDebt(p.OnFailure)
	if p.ActualCost {
		most = max(most, p.Terms.Capacity)
	}
	a.Want.Overdrawn = min(a.Want.Overdrawn, most)
	if p.Terms.Lies(a.Want.Unused) {
		rules.rules[p.Rule].counts.giveBacks.Inc()
		s.notices.warn(&s.notices.giveBacks, x, "give-back rejected: more units than were granted", "rule", p.Rule, "units", a.Want.Unused)
		a.Want.Unused = 0
	}
	return a
}

// names is what the names of a call's debts belong to: the replicas of a region pass on what
// the same holders repeat.
func names(r *wire.Request) []byte {
	if r.Region != "" {
		return []byte(r.Region)
	}
	return r.Holder
}

// gather makes the asks of each group adjacent. The others keep their order.
func (x *exchange) gather() {
	order := make([]int, len(x.asks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(int64(x.asks[a].Group) - int64(x.asks[b].Group)) })
	asks, index := make([]engine.Ask, len(order)), make([]int32, len(order))
	for to, from := range order {
		asks[to], index[to] = x.asks[from], x.index[from]
	}
	x.asks, x.index = asks, index
}

// count counts what was asked and answered.
func (s *Service) count(x *exchange, rules *catalog) {
	for i := range x.asks {
		rules.counts(x.asks[i].Policy).count(&x.asks[i], &x.grants[i])
	}
	if x.unknown > 0 {
		s.metrics.unknown.Add(float64(x.unknown))
	}
}

// answer puts the grants into the response, in the order of the wants.
func (x *exchange) answer() {
	for i := range x.asks {
		a, out := &x.asks[i], &x.response.Grants[x.index[i]]
		*out = wire.Grant{Grant: x.grants[i], Shape: a.Policy.Limit.Fingerprint(), Name: out.Name}
		if a.Holder != 0 { // slots are not leased for a period
			w := &x.request.Wants[x.index[i]]
			out.Shape, out.Lease = w.Shape, w.Lease
		}
	}
}
