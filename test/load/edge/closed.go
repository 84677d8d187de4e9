//go:build linux

package edge

import (
	"context"
	"fmt"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/load/table"
)

// closedLoop measures what a decision costs when requests come as fast as they
// are answered.
func (b *bench) closedLoop(ctx context.Context) ([]table.Section, error) {
	s := table.Section{Title: fmt.Sprintf("Closed loop, %d connections, %d keys or one: CPU of Envoy", closedConns, b.plan.keys)}
	uniform := drive.Uniform(b.plan.keys, 1)
	ms := modes{b: b, conns: closedConns}
	bare := ms.add("bare Envoy", b.bare, "/one/thing", uniform, answered)
	ms.add("native local_ratelimit, allowing", b.native, "/one/thing", uniform, answered)
	refusing := ms.add("native local_ratelimit, refusing", b.refusing, "/one/thing", uniform, refused)
	b.addWeir(&ms, uniform, refusing)
	err := ms.run(ctx, drive.Pace{Duration: b.plan.warm}, drive.Pace{Duration: b.plan.round}, b.plan.rounds)
	for _, m := range ms.all {
		if m.target.BaseName != "" {
			m.target.Base = refusing.CPU
		}
		s.Rows = append(s.Rows, m.row(bare, 0))
	}
	return []table.Section{s}, err
}

// addWeir adds each decision on many keys and on one.
func (b *bench) addWeir(ms *modes, uniform drive.Keys, refusing *mode) {
	one := table.Target{Kind: table.Over, Bound: 8}
	three := table.Target{Kind: table.Over, Bound: 12}
	denial := table.Target{Kind: table.Times, Bound: 1.15, BaseName: refusing.Name}
	hot := drive.Hot()
	ms.weir("Weir, no rule matches", b.one, "/none/thing", uniform, answered)
	ms.weir("Weir, one rule, many keys", b.one, "/one/thing", uniform, answered, "one").target = one
	ms.weir("Weir, one rule, one key", b.one, "/one-hot/thing", hot, answered, "one-hot").target = one
	ms.weir("Weir, one rule and X-RateLimit headers", b.one, "/x/thing", uniform, answered, "x")
	ms.weir("Weir, three rules, many keys", b.three, "/three/thing", uniform, answered,
		"user", "address", "total").target = three
	ms.weir("Weir, three rules, one key", b.three, "/three-hot/thing", hot, answered,
		"user-hot", "address-hot", "total-hot").target = three
	ms.weir("Weir, refused, many keys", b.one, "/refused/thing", uniform, refused, "refused").target = denial
	ms.weir("Weir, refused, one key", b.one, "/refused-hot/thing", hot, refused, "refused-hot").target = denial
}

// fixedRate measures the same at a modest rate, where Envoy wakes for nearly
// every request and everything costs more.
func (b *bench) fixedRate(ctx context.Context) ([]table.Section, error) {
	s := table.Section{Title: "Open loop, 5,000 requests per second"}
	uniform := drive.Uniform(b.plan.keys, 2)
	ms := modes{b: b, conns: openConns}
	bare := ms.add("bare Envoy", b.bare, "/one/thing", uniform, answered)
	ms.weir("Weir, one rule, many keys", b.one, "/one/thing", uniform, answered, "one").target = table.Target{Kind: table.Times, Bound: 1.6}
	load := drive.Pace{Duration: b.plan.fixedRound, Rate: fixedRate}
	warm := load
	warm.Duration = b.plan.warm
	err := ms.run(ctx, warm, load, b.plan.fixedRounds)
	for _, m := range ms.all {
		p50 := table.Row{Name: m.Name + ", p50", Unit: "µs", Value: m.P50, Peer: bare.P50}
		p99 := table.Row{Name: m.Name + ", p99", Unit: "µs", Value: m.P99, Peer: bare.P99}
		if m != bare {
			p99.Target = table.Target{Kind: table.Times, Bound: 1.3}
		}
		s.Rows = append(s.Rows, m.row(bare, fixedRate), p50, p99)
	}
	return []table.Section{s}, err
}
