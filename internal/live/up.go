package live

import (
	"context"
	"strings"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/wire"
)

// matches reports whether a tap asks for a decision.
func matches(t *wire.Tap, d *wire.Decision) bool {
	return (t.Rule == "" || t.Rule == d.Rule || t.Rule == rule.Written(d.Rule)) &&
		(len(t.Key) == 0 || string(t.Key) == string(d.Key)) && (t.Outcome == 0 || t.Outcome == d.Outcome)
}

// listBytes bounds the rules that a report to the tier above has, the decisions, and the keys. The rest is for members.
const listBytes = 56 << 10

// passUp shows the region to the tier above, and takes what that watches.
func (d *Desk) passUp(ctx context.Context) {
	v, err := d.See(ctx)
	if err != nil {
		d.note(ctx, err)
		return
	}
	d.mu.Lock()
	above := d.above
	d.mu.Unlock()
	m := &wire.ReportRequest{IntervalMs: horizon}
	room, left := wire.MaxReport-1024, 0 // in all, and for the list that is next
	fits := func(n int) bool {
		if n > left {
			return false
		}
		room, left = room-n, left-n
		return true
	}
	left = listBytes
	for i := range v.Rules {
		if u := &v.Rules[i].RuleUse; len(m.Rules) < wire.MaxRuleUses && fits(64+len(u.Rule)) {
			m.Rules = append(m.Rules, *u)
		}
	}
	if above.Tap != nil {
		var found []Decision
		left = listBytes
		found, d.passed = v.Decisions(above.Tap, d.passed)
		for i := range found {
			if one := &found[i].Decision; fits(64 + len(one.Rule) + len(one.Override) + len(one.Key)) {
				m.Decisions = append(m.Decisions, *one)
			}
		}
	}
	if above.Keys {
		for _, list := range []struct{ to, from *[]wire.KeyRate }{{&m.Keys, keysOf(v.Busiest)}, {&m.Denied, keysOf(v.Denied)}} {
			left = listBytes / 2
			for _, k := range *list.from {
				if fits(32 + len(k.Rule) + len(k.Override) + len(k.Key)) {
					*list.to = append(*list.to, k)
				}
			}
		}
	}
	left = room
	for _, of := range v.Members {
		of.Region, of.Error, of.Redis = d.config.Region, strings.ToValidUTF8(of.Error, ""), strings.ToValidUTF8(of.Redis, "")
		if of.Kind != wire.MemberAggregator && len(m.Members) < wire.MaxMembers &&
			fits(160+len(of.Name)+len(of.Version)+len(of.RulesVersion)+len(of.Error)+len(of.Redis)) {
			m.Members = append(m.Members, of)
		}
	}
	bounded, cancel := context.WithTimeout(ctx, boardTime)
	defer cancel()
	answer, err := d.config.Above.Report(bounded, m)
	if err != nil {
		if ctx.Err() == nil && d.down.Now() {
			d.config.Log.Warn("the aggregator does not take what this region shows", "error", err)
		}
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.above = (Watch{}); answer.WatchMs > 0 {
		d.above = Watch{answer.Keys, answer.Tap}
	}
}

func keysOf(all []Rate) *[]wire.KeyRate { list := passed(all); return &list }
