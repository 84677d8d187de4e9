package replay

import (
	"fmt"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/accesslog"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/exact"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

// decider finds out which rules apply to requests, and which cannot be decided because the log lacks what they look at. Such a
// rule is left out: each has one more condition, a header that a request must not have.
type decider struct {
	set     *rule.Set
	with    *rule.Set // the same with these conditions
	where   *rule.Set // each rule for all requests with its methods and paths
	rules   []looked
	region  string // of each line; empty: that which the line states
	request rule.Request
	found   rule.Matches
}

// looked is what a rule looks at, and at how many requests it did.
type looked struct {
	at, missing              []string         // inputs: all, and those that were not known
	format                   accesslog.Format // of the first line that lacked one
	header                   int              // the place of the rule's header among the inputs
	unknown, noKey, exempted int64            // requests: not known, without a part of the key, and for which it lifts others
}

// Words for what a rule with count needs of a line. No line states the status of gRPC.
const (
	status     = "status"
	grpcStatus = "status of gRPC"
)

func newDecider(c Config) decider {
	set := c.Rules
	d := decider{set: set, region: c.Region, rules: make([]looked, set.Len())}
	with, where := make([]rule.Rule, set.Len()), make([]rule.Rule, set.Len())
	name := func(i int) string { return fmt.Sprint("weir-unknown-", i) }
	for i := range with {
		r := set.Rule(i)
		with[i] = *r
		m := &with[i].Match
		m.Headers = append(slices.Clone(m.Headers), rule.Named{Name: name(i), Text: rule.Text{Op: rule.OpAbsent}})
		slices.SortFunc(m.Headers, func(a, b rule.Named) int { return strings.Compare(a.Name, b.Name) })
		where[i] = rule.Rule{
			Name: r.Name, Match: rule.Match{Methods: r.Match.Methods, Paths: r.Match.Paths, Ignore: r.Match.Ignore},
			Limits: []rule.Variant{{Limit: limit.Spec{Algorithm: limit.FixedWindow, Period: limit.Minute}}},
		}
		if r.Mode == rule.Off {
			where[i].Mode = rule.Off
		}
		if d.rules[i].at = (request.Known{}).Missing(r); r.Concurrent() {
			d.rules[i].at = append(d.rules[i].at, accesslog.Duration)
		}
		if r.Count.ByResponse() {
			d.rules[i].at = append(d.rules[i].at, status)
		}
		if len(r.Count.GRPCStatus) > 0 {
			d.rules[i].at = append(d.rules[i].at, grpcStatus)
		}
		if a := &r.Cost.Actual; a.Stated() {
			d.rules[i].at = append(d.rules[i].at, accesslog.CostInput(a))
		}
	}
	d.with, d.where = rule.NewSet(with, set.Regions(), set.Seed()), rule.NewSet(where, nil, 0)
	for i := range d.rules {
		d.rules[i].header = d.with.Inputs().Header(name(i))
	}
	return d
}

// match finds the rules that apply to the request of a line, and counts those that are unknown for it.
func (d *decider) match(e *entry, l *accesslog.Line) {
	q := &d.request
	q.PoP = nil // that of another line
	if d.region != "" {
		l.Request.Region, l.Known["region"] = d.region, true
	}
	if l.Others["status"] != "" {
		l.Known[status] = true
	}
	l.Request.Fill(d.with.Inputs(), q)
	q.Now, q.Secret = e.at, &exact.Secret
	d.where.Match(q, &d.found)
	for _, h := range d.found.Hits {
		of := &d.rules[h.Rule]
		q.Headers[of.header].Present = of.lacks(l)
	}
	d.with.Match(q, &d.found)
	for _, h := range d.found.Hits {
		r := d.set.Rule(h.Rule)
		hit := exact.Hit{Rule: h.Rule, Variant: h.Variant, Cost: h.Cost, Key: string(h.Key), Settles: r.Settles()}
		if hit.Settles {
			hit.Used = r.Settle(l.Outcome(), h.Cost)
		}
		if r.Concurrent() || hit.Settles {
			e.lasts = min(limit.Micros(l.Duration.Microseconds()), limit.Day)
		}
		e.hits = append(e.hits, hit)
		e.hashes = append(e.hashes, hashOf(h.Rule, h.Key))
	}
	for _, i := range d.found.MissingKey {
		d.rules[i].noKey++
	}
	for _, i := range d.found.Exempt {
		d.rules[i].exempted++
	}
}

// lacks reports that the rule looks at something that is not known, and counts that.
func (r *looked) lacks(l *accesslog.Line) bool {
	lacks := false
	for _, word := range r.at {
		if l.Known[word] {
			continue
		}
		if r.unknown == 0 {
			r.format = l.Format
		}
		if lacks = true; !slices.Contains(r.missing, word) {
			r.missing = append(r.missing, word)
		}
	}
	add(&r.unknown, lacks)
	return lacks
}

// note says which inputs the log lacks, and why; empty: none.
func (r *looked) note() string {
	if r.unknown == 0 {
		return ""
	}
	slices.Sort(r.missing)
	hint := "add it to the access log, see docs/access-log.md"
	switch has := r.format.Has(); {
	case slices.Equal(r.missing, []string{"region"}):
		hint = "state it with --region"
	case has != "":
		hint = string(r.format) + " has only " + has
	}
	return fmt.Sprintf("needs %s, which the log lacks (lines: %d); %s", strings.Join(r.missing, ", "), r.unknown, hint)
}
