package sim

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check/checktest"
)

// Rule is a limit and how it is leased.
type Rule struct {
	Name        string
	Spec        limit.Spec
	Consistency lease.Consistency
	OnFailure   lease.OnFailure
	Timeout     lease.Millis // 0: the default
	Overdraft   int64        // 0: the default
	Interval    limit.Micros // the lease interval; 0: the default
	Scope       rule.Scope
	Sharing     rule.Sharing

	// Limit and Terms are what all tiers make of it.
	Limit *limit.Limit
	Terms lease.Terms

	header, costHeader string // in which a request states its key and its cost
}

// counterKey names a counter: rule, shape of its limit, key.
type counterKey struct {
	rule  string
	shape uint64
	key   string
}

func (k counterKey) String() string { return k.rule + "/" + k.key }

// slots reports a limit of concurrency, of which nothing is leased for a period. Whoever
// counts its streams checks it.
func (r *Rule) slots() bool { return r.Spec.Algorithm == limit.Concurrency }

// inWindows reports a limit that counts in windows of its clock.
func inWindows(l *limit.Limit) bool {
	a := l.Spec().Algorithm
	return a == limit.FixedWindow || a == limit.SlidingWindow
}

func (r *Rule) counter(key string) counterKey { return counterKey{r.Name, r.Limit.Shape(), key} }

// ruleBook is the rules of a run, and the set that the tiers get.
type ruleBook struct {
	list     []*Rule
	set      *rule.Set
	shares   rule.Regions
	revision uint64
}

// compile makes the set. A header of a request states for each rule which key it has and
// what it costs; a rule without one does not apply.
func (b *ruleBook) compile() {
	var rules []rule.Rule
	for _, r := range b.list {
		r.header = "x-" + r.Name
		r.costHeader = r.header + "-cost"
		rules = append(rules, rule.Rule{
			Name:        r.Name,
			Key:         []rule.Part{{{From: rule.FromHeader, Name: r.header}}},
			Limits:      []rule.Variant{{Limit: r.Spec}},
			Consistency: r.Consistency,
			OnFailure:   r.OnFailure,
			Timeout:     limit.Micros(r.Timeout) * limit.Millisecond,
			Overdraft:   r.Overdraft,
			Scope:       r.Scope, Sharing: r.Sharing,
			LeaseInterval: r.Interval,
		})
		if !r.slots() {
			most := r.Spec.Count
			if r.Spec.Burst > 0 {
				most = r.Spec.Burst
			}
			rules[len(rules)-1].Cost = rule.Cost{By: rule.Source{From: rule.FromHeader, Name: r.costHeader}, Default: 1, Max: most}
		}
	}
	set, err := checktest.New(rules, b.shares...)
	if err != nil {
		panic(err)
	}
	b.revision++
	b.set = set.Dated(b.revision)
	for _, r := range b.list {
		i, _ := set.Find(r.Name)
		in := set.Rule(i)
		r.Limit = set.Limit(i, 0)
		r.Terms = lease.NewTerms(r.Limit, r.Consistency, lease.Millis(in.LeaseInterval/limit.Millisecond),
			lease.Millis(in.Timeout/limit.Millisecond), in.Overdraft)
	}
}

func (b *ruleBook) find(name string) *Rule {
	for _, r := range b.list {
		if r.Name == name {
			return r
		}
	}
	return nil
}
