package live

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/internal/wire"
)

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
	m := &quotapb.ReportRequest{IntervalMs: horizon}
	for _, u := range v.Rules {
		m.Rules = append(m.Rules, u.RuleUse)
	}
	m.Rules = within(m.Rules, listBytes)
	if above != nil {
		var found []Decision
		found, d.passed = v.Decisions(above, d.passed)
		for _, one := range found {
			m.Decisions = append(m.Decisions, one.Decision)
		}
		m.Decisions = within(m.Decisions, listBytes)
	}
	m.Keys, m.Denied = passed(v.Busiest), passed(v.Denied)
	m.Members = within(v.Members, wire.MaxReport-1024-proto.Size(m))
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
	d.above = answer.Tap
	d.mu.Unlock()
}

// passed are keys as a report has them.
func passed(all []Rate) (list []*quotapb.KeyRate) {
	for _, r := range all {
		list = append(list, r.KeyRate)
	}
	return within(list, listBytes/2)
}

// within is the begin of a list, of as many messages as a report may have, and of so many bytes.
func within[M proto.Message](list []M, room int) []M {
	const around = 4 // bytes of a tag and a length
	for i := range list {
		if room -= proto.Size(list[i]) + around; room < 0 || i == wire.MaxListed {
			return list[:i]
		}
	}
	return list
}
