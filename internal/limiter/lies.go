package limiter

import (
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

// largerFor is how long after a change of the rules a holder may give back units of a larger
// limit of before: its leases end within 10 s, and idle keys are scanned for about a minute.
const largerFor = 2 * limit.Minute

// lie is a give-back of more units than any holder can have been granted, or a debt of more than any
// can have admitted without a lease.
type lie struct {
	by          *entry
	rule        string
	debt        bool
	units, most int64
}

// succeed makes e follow the entry that the rule had until now; nil: it had none.
func (e *entry) succeed(old *entry, now limit.Micros) {
	for _, p := range e.policies {
		e.most = max(e.most, p.Terms.Capacity)
	}
	for _, p := range e.keys {
		e.most = max(e.most, p.Terms.Capacity)
	}
	if old == nil {
		return
	}
	e.was, e.replaced = old.most, now
	if since(old.replaced, now) < largerFor {
		e.was = max(e.was, old.was)
	}
}

// credible is how many units a holder may state to give back at once of a policy of the rule:
// what [lease.Terms.Lies] allows, of the largest limit that the rule had lately.
func (e *entry) credible(p *engine.Policy, now limit.Micros) int64 {
	most := p.Terms.Capacity
	if since(e.replaced, now) < largerFor {
		most = max(most, e.was)
	}
	return lease.Credible(most)
}

// disbelieve drops a give-back that no store would take back. It is a lie unless the rule had a
// larger limit lately.
func (s *Service) disbelieve(x *exchange, of *entry, a *engine.Ask) {
	if most := of.credible(a.Policy, s.now()); a.Want.Unused > most {
		x.lies = append(x.lies, lie{by: of, rule: a.Policy.Rule, units: a.Want.Unused, most: most})
	}
	a.Want.Unused = 0
}

// boundDebt cuts what a holder states to owe to what the rule can make it owe.
func (s *Service) boundDebt(x *exchange, of *entry, a *engine.Ask) {
	most := a.Policy.Terms.MaxDebt(a.Policy.OnFailure)
	if a.Want.Overdrawn > most {
		x.lies = append(x.lies, lie{by: of, rule: a.Policy.Rule, debt: true, units: a.Want.Overdrawn, most: most})
		a.Want.Overdrawn = most
	}
}

// tell counts the lies of a call and logs one of them. It is called once for each call, however
// often the network brings it.
func (s *Service) tell(x *exchange) {
	for i := range x.lies {
		l := &x.lies[i]
		if l.debt {
			l.by.counts.debts.Inc()
		} else {
			l.by.counts.lies.Inc()
		}
		s.notices.lie(x, l)
	}
}
