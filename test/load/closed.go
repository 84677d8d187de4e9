//go:build linux

package main

import (
	"context"

	"github.com/weirlimit/weir/test/load/drive"
	"github.com/weirlimit/weir/test/load/table"
)

// closedLoop measures what a decision costs when requests come as fast as they
// are answered.
func (b *bench) closedLoop(ctx context.Context) (table.Section, error) {
	s := table.Section{Title: "Closed loop, 32 connections: CPU of Envoy"}
	uniform := drive.Uniform(keys, 1)
	ms := modes{b: b, conns: closedConns}
	bare := ms.add("bare Envoy", b.bare, "/one/thing", uniform, answered)
	ms.add("native local_ratelimit, allowing", b.native, "/one/thing", uniform, answered)
	refusing := ms.add("native local_ratelimit, refusing", b.refusing, "/one/thing", uniform, refused)
	if !b.peersOnly {
		b.addWeir(&ms, uniform, refusing)
	}
	err := ms.run(ctx, drive.Load{Duration: b.plan.warm}, drive.Load{Duration: b.plan.round}, b.plan.rounds)
	for _, m := range ms.all {
		if m.target.BaseName != "" {
			m.target.Base = refusing.cpu
		}
		s.Rows = append(s.Rows, m.row(bare, 0))
	}
	if err == nil && b.profile {
		var places table.Section
		places, err = b.profileModes(ctx, ms.all, bare)
		b.profiles = append(b.profiles, places)
	}
	return s, err
}

// addWeir adds each decision on many keys and on one.
func (b *bench) addWeir(ms *modes, uniform drive.Keys, refusing *mode) {
	one := table.Target{Kind: table.Over, Bound: 8}
	three := table.Target{Kind: table.Over, Bound: 12}
	denial := table.Target{Kind: table.Times, Bound: 1.15, BaseName: refusing.name}
	hot := drive.Hot()
	ms.add("Weir, no rule matches", b.one.pop, "/none/thing", uniform, answered)
	ms.add("Weir, one rule, 10,000 keys", b.one.pop, "/one/thing", uniform, answered).target = one
	ms.add("Weir, one rule, one key", b.one.pop, "/one/thing", hot, answered).target = one
	ms.add("Weir, one rule and X-RateLimit headers", b.one.pop, "/x/thing", uniform, answered)
	ms.add("Weir, three rules, 10,000 keys", b.three.pop, "/three/thing", uniform, answered).target = three
	ms.add("Weir, three rules, one key", b.three.pop, "/three/thing", hot, answered).target = three
	ms.add("Weir, refused, 10,000 keys", b.one.pop, "/refused/thing", uniform, refused).target = denial
	ms.add("Weir, refused, one key", b.one.pop, "/refused/thing", hot, refused).target = denial
}

// fixedRate measures the same at a modest rate, where Envoy wakes for nearly
// every request and everything costs more.
func (b *bench) fixedRate(ctx context.Context) (table.Section, error) {
	s := table.Section{Title: "Open loop, 5,000 requests per second"}
	uniform := drive.Uniform(keys, 2)
	ms := modes{b: b, conns: openConns}
	bare := ms.add("bare Envoy", b.bare, "/one/thing", uniform, answered)
	if !b.peersOnly {
		ms.add("Weir, one rule, 10,000 keys", b.one.pop, "/one/thing", uniform, answered).
			target = table.Target{Kind: table.Times, Bound: 1.6}
	}
	load := drive.Load{Duration: b.plan.fixedRound, Rate: fixedRate}
	warm := load
	warm.Duration = b.plan.warm
	err := ms.run(ctx, warm, load, b.plan.fixedRounds)
	for _, m := range ms.all {
		p50 := table.Row{Name: m.name + ", p50", Unit: "µs", Value: m.p50, Bare: bare.p50}
		p99 := table.Row{Name: m.name + ", p99", Unit: "µs", Value: m.p99, Bare: bare.p99}
		if m != bare {
			p99.Target = table.Target{Kind: table.Times, Bound: 1.3}
		}
		s.Rows = append(s.Rows, m.row(bare, fixedRate), p50, p99)
	}
	return s, err
}
