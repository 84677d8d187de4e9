package live

import (
	"context"

	"google.golang.org/protobuf/proto"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/wire"
)

// listBytes bounds the rules that a report to the aggregator has, the decisions, and the keys. The rest is for members.
const listBytes = 56 << 10

// passUp shows the region to the aggregator, and takes what that watches.
func (d *Collector) passUp(ctx context.Context) {
	v, err := d.See(ctx)
	if err != nil {
		d.note(ctx, err)
		return
	}
	d.mu.Lock()
	above := d.aggregatorTap
	d.mu.Unlock()
	m := &quotav1.ReportRequest{
		Rules: within[*quotav1.RuleUse](v.Rules, listBytes),
		Keys:  within[*quotav1.KeyRate](v.Busiest, listBytes/2), Denied: within[*quotav1.KeyRate](v.Denied, listBytes/2),
	}
	if above != nil {
		var found []Decision
		found, d.passed = v.Decisions(above, d.passed)
		m.Decisions = within[*quotav1.Decision](found, listBytes)
	}
	m.Members = within[*quotav1.Member](v.Members, wire.MaxReport-1024-proto.Size(m))
	bounded, cancel := context.WithTimeout(ctx, notesTime)
	defer cancel()
	answer, err := d.config.Aggregator.Report(bounded, m)
	if err != nil {
		if ctx.Err() == nil && d.down.Now() {
			d.config.Log.Warn("the aggregator rejects this region's live reports", "error", err)
		}
		return
	}
	d.mu.Lock()
	d.aggregatorTap = answer.Tap
	d.mu.Unlock()
}

// within are the messages of the first items of a list, as many as a report may have, and of so many bytes.
func within[M, T proto.Message](list []T, room int) (messages []M) {
	const around = 4 // bytes of a tag and a length
	for _, one := range list {
		if room -= proto.Size(one) + around; room < 0 || len(messages) == wire.MaxListed {
			break
		}
		messages = append(messages, one.ProtoReflect().Interface().(M))
	}
	return messages
}
