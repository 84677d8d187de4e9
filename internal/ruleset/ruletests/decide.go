package ruletests

import (
	"container/heap"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/settle"
	"github.com/weirlimit/weir/internal/ruleset/exact"
	"github.com/weirlimit/weir/internal/shed"
	"github.com/weirlimit/weir/wasmfilter/edge"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
)

// player decides the requests of a test. The limiter of package exact decides what is counted.
type player struct {
	set     *rule.Set
	test    *Test
	now     limit.Micros
	limiter *exact.Limiter

	down, cutOff map[string]bool       // regions: their PoPs cannot reach them; they cannot reach the aggregator
	inFlight     map[string]*int64     // requests, by PoP and shed rule
	streams      exact.Endings[*int64] // of inFlight

	// The request that is decided.
	input  rule.Request
	found  rule.Matches
	hits   []exact.Hit           // what the limiter decides
	failed map[*rule.Rule]bool   // on_failure decides
	keys   map[*rule.Rule]string // of the rules that apply
	quotas []edge.Quota
	edge   edge.Request
}

// Most keys and requests in flight that a test can have.
const mostKeys = 2 * maxRequests

// failedRetry is after how long a client should come back that no limit rejects.
const failedRetry lease.Millis = 1000

func newPlayer(set *rule.Set, t *Test) *player {
	return &player{
		set: set, test: t, now: t.start, limiter: exact.New(set, mostKeys), down: map[string]bool{}, cutOff: map[string]bool{},
		inFlight: map[string]*int64{}, keys: map[*rule.Rule]string{}, failed: map[*rule.Rule]bool{},
	}
}

// place is what rules know of a PoP.
func (p *pop) place() *rule.PoP { return &rule.PoP{Region: p.region, Labels: p.labels} }

// decide decides a request at a PoP that has been matched.
func (p *player) decide(at *pop, s *step) {
	p.edge = edge.Request{WouldDeny: p.edge.WouldDeny[:0]}
	p.hits, p.quotas = p.hits[:0], p.quotas[:0]
	for i := range p.found.Sheds {
		if h := &p.found.Sheds[i]; p.full(at, h) && !p.shadow(h.Rule) {
			p.edge.Outcome, p.edge.Status, p.edge.RetryAfter = edge.Deny, 503, failedRetry
			p.edge.Shed, p.edge.Class = p.set.Rule(h.Rule), h.Class
			return
		}
	}
	closed := -1
	for i := range p.found.Hits {
		if p.add(at, &p.found.Hits[i], s.response) && closed < 0 {
			closed = len(p.quotas) - 1
		}
	}
	if closed >= 0 {
		q := &p.quotas[closed]
		q.Reset, p.edge.Failed, p.edge.Degraded = failedRetry, true, true
		p.deny(closed, q.Rule.DenyStatus, failedRetry)
		return
	}
	if p.decideCounted(s.lasts); p.edge.Outcome == edge.Admit {
		for i := range p.found.Sheds {
			p.enter(at, &p.found.Sheds[i], s.lasts)
		}
	}
}

// shadow reports whether a rule rejects nothing.
func (p *player) shadow(i int) bool { return p.set.Rule(i).Mode == rule.Shadow }

// full reports whether a shed rule has no capacity for one more request.
func (p *player) full(at *pop, h *rule.ShedHit) bool {
	s := p.set.Rule(h.Rule).Shed
	return *p.flying(at, h) >= shed.ClassCapacity(s.Capacity, s.Shares[h.Class])
}

// flying are the requests in flight at a PoP by a shed rule.
func (p *player) flying(at *pop, h *rule.ShedHit) *int64 {
	name := at.name + "\n" + p.set.Rule(h.Rule).Name
	if p.inFlight[name] == nil {
		p.inFlight[name] = new(int64)
	}
	return p.inFlight[name]
}

// enter has an admitted request be in flight, or notes that a shadow rule would have rejected it.
func (p *player) enter(at *pop, h *rule.ShedHit, lasts limit.Micros) {
	if p.full(at, h) {
		p.edge.WouldDeny = append(p.edge.WouldDeny, p.set.Rule(h.Rule).Name)
		return
	}
	in := p.flying(at, h)
	*in++
	heap.Push(&p.streams, exact.Ending[*int64]{At: p.now + lasts, What: in})
}

// end ends the requests that have ended by now.
func (p *player) end() {
	for len(p.streams) > 0 && p.streams[0].At <= p.now {
		*heap.Pop(&p.streams).(exact.Ending[*int64]).What--
	}
}

// add adds a hit to those that are counted, unless on_failure decides it; closed: that rejects the request. Who shares the counter
// depends on the scope.
func (p *player) add(at *pop, h *rule.Hit, response *settle.Response) (closed bool) {
	r := p.set.Rule(h.Rule)
	p.keys[r] = string(h.Key)
	if r.Mode != rule.Shadow {
		s := p.set.Limit(h.Rule, h.Variant).Spec()
		p.quotas = append(p.quotas, edge.Quota{Rule: r, Name: rulebook.Name(r, h.Variant), Policy: rulebook.Item(r, s), Limit: max(s.Count, s.Burst)})
	}
	hit, own := exact.Hit{Rule: h.Rule, Variant: h.Variant, Cost: h.Cost, Key: string(h.Key)}, at.region+"/"+at.name
	if hit.Settles = response != nil && r.Settles(); hit.Settles {
		hit.Used = r.Settle(response, h.Cost)
	}
	alone, cutOff := r.Scope != rule.ScopePoP && p.down[at.region], r.Scope == rule.ScopeGlobal && p.cutOff[at.region]
	p.failed[r] = alone || cutOff
	switch {
	case p.failed[r] && r.OnFailure != lease.FailureLocal:
		if r.OnFailure == lease.FailureDeny && r.Mode == rule.Shadow {
			p.edge.WouldDeny = append(p.edge.WouldDeny, r.Name)
		}
		return r.OnFailure == lease.FailureDeny && r.Mode != rule.Shadow
	case alone:
		pops := p.popsOf(at.region)
		hit.Place, hit.Part = "alone in "+own, func(units int64) int64 { return (p.part(r, at.region).Of(units) + pops - 1) / pops }
	case cutOff:
		hit.Place, hit.Part = "cut off "+at.region, p.part(r, at.region).Of
	case r.Scope == rule.ScopePoP:
		hit.Place = own
	case r.Scope == rule.ScopeRegion:
		hit.Place = at.region
	case p.set.Regions().Divide(r.Scope, r.OnFailure):
		hit.Part = func(units int64) int64 { return p.left(r, units) }
	}
	p.hits = append(p.hits, hit)
	return false
}

// popsOf is how many PoPs of a region the test has.
func (p *player) popsOf(region string) (n int64) {
	for i := range p.test.pops {
		if p.test.pops[i].region == region {
			n++
		}
	}
	return n
}

// part is a region's part of a limit with scope: global; all of it where regions have none.
func (p *player) part(r *rule.Rule, region string) reserve.PerMille {
	if rs := p.set.Regions(); rs.Divide(r.Scope, r.OnFailure) {
		return reserve.PerMille(rs.Share(region, int64(reserve.Whole)))
	}
	return reserve.Whole
}

// left is what is left of a limit without the parts of the regions that are cut off.
func (p *player) left(r *rule.Rule, units int64) int64 {
	left := units
	for region, is := range p.cutOff {
		if is {
			left -= p.part(r, region).Of(units)
		}
	}
	return left
}

// decideCounted has the limiter decide.
func (p *player) decideCounted(lasts limit.Micros) {
	denier := p.limiter.Decide(p.now, lasts, p.hits)
	var wait lease.Millis
	for i := range p.hits {
		h := &p.hits[i]
		switch {
		case !p.shadow(h.Rule):
			wait = max(wait, p.state(h, p.limiter.Counted(i)))
		case h.Denied:
			p.edge.WouldDeny = append(p.edge.WouldDeny, p.set.Rule(h.Rule).Name)
		}
	}
	if denier < 0 {
		for i := range p.quotas {
			p.edge.Degraded = p.edge.Degraded || p.failed[p.quotas[i].Rule]
		}
		p.edge.SetQuotas(p.quotas, 0)
		return
	}
	q, n := p.quota(p.hits[denier].Rule)
	p.edge.Degraded = p.failed[q.Rule]
	if q.Rule.Concurrent() || wait > lease.CeilMillis(limit.MaxPeriod) { // a stream has to end first, or waiting does not help
		wait, q.Reset = 0, 0
	}
	p.deny(n, q.Rule.Rejection.Status, wait)
}

// state has the quota of a hit state what the limiter knows of it, and returns how long a client that it rejects has to wait.
func (p *player) state(h *exact.Hit, c *exact.Counted) (wait lease.Millis) {
	q, n := p.quota(h.Rule)
	if c.Policy.Unlimited {
		p.quotas = append(p.quotas[:n], p.quotas[n+1:]...)
		return 0
	}
	if c.Keyed {
		s := c.Policy.Limit.Spec()
		s.Count = c.Policy.Terms.Capacity
		q.Limit, q.Policy = s.Count, rulebook.Item(q.Rule, s)
		if len(c.Own) > 0 {
			q.Name += "/" + string(c.Own)
		}
	}
	if q.Remaining, q.Reset = c.Grant.Remaining, c.Grant.Reset; h.Settles && c.Grant.Status == lease.OK && q.Rule.Cost.Actual.From == settle.FromHeader { // otherwise it is known after these headers
		q.Remaining = max(0, min(q.Remaining+h.Cost-h.Used, q.Limit))
	}
	if c.Grant.Status == lease.Denied {
		q.Remaining, q.Reset = 0, max(c.Grant.RetryAfter, 1)
		if !q.Rule.Concurrent() {
			wait = q.Reset
		}
	}
	return wait
}

// quota is that of a rule, and its index.
func (p *player) quota(i int) (*edge.Quota, int) {
	for n := range p.quotas {
		if p.quotas[n].Rule == p.set.Rule(i) {
			return &p.quotas[n], n
		}
	}
	return nil, -1
}

// deny rejects the request because of a quota.
func (p *player) deny(by, status int, wait lease.Millis) {
	p.edge.Outcome, p.edge.Status, p.edge.RetryAfter = edge.Deny, status, wait
	p.edge.SetQuotas(p.quotas, by)
}
