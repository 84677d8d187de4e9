//go:build linux

package main

import (
	"context"
	"net/http"

	"github.com/weirlimit/weir/test/load/drive"
	"github.com/weirlimit/weir/test/load/table"
)

// closedLoop measures what a decision costs when requests come as fast as they
// are answered.
func (b *bench) closedLoop(ctx context.Context) (table.Section, error) {
	s := table.Section{Title: "Closed loop, 32 connections, CPU of Envoy per request"}
	native, err := b.Native(ctx, "native", b.upstream, 10_000_000)
	if err != nil {
		return s, err
	}
	refusing, err := b.Native(ctx, "native-refusing", b.upstream, 0)
	if err != nil {
		return s, err
	}
	var modes []*mode
	add := func(m *mode, err2 error) *mode {
		modes = append(modes, m)
		if err == nil {
			err = err2
		}
		return m
	}
	uniform := drive.Uniform(keys, 1)
	bare := add(b.mode("bare Envoy", b.bare, "/v1/things", closedConns, uniform, http.StatusOK))
	add(b.mode("native local_ratelimit, allowing", native, "/v1/things", closedConns, uniform, http.StatusOK))
	add(b.mode("native local_ratelimit, refusing", refusing, "/v1/things", closedConns, uniform, http.StatusTooManyRequests))
	if err != nil {
		return s, err
	}
	err = interleave(ctx, modes, drive.Load{Duration: b.plan.warm}, drive.Load{Duration: b.plan.round}, b.plan.rounds)
	for _, m := range modes {
		s.Rows = append(s.Rows, table.Row{Name: m.name, Unit: "µs/req", Value: m.cpu, Bare: bare.cpu, Note: m.note(0)})
	}
	return s, err
}

// fixedRate measures the same at a modest rate, where Envoy wakes for nearly
// every request and everything costs more.
func (b *bench) fixedRate(ctx context.Context) (table.Section, error) {
	s := table.Section{Title: "Open loop, 5,000 requests per second"}
	uniform := drive.Uniform(keys, 2)
	bare, err := b.mode("bare Envoy", b.bare, "/v1/things", openConns, uniform, http.StatusOK)
	if err != nil {
		return s, err
	}
	modes := []*mode{bare}
	load := drive.Load{Duration: b.plan.fixedRound, Rate: fixedRate}
	warm := load
	warm.Duration = b.plan.warm
	err = interleave(ctx, modes, warm, load, b.plan.fixedRounds)
	for _, m := range modes {
		s.Rows = append(s.Rows,
			table.Row{Name: m.name + ", CPU", Unit: "µs/req", Value: m.cpu, Bare: bare.cpu, Note: m.note(fixedRate)},
			table.Row{Name: m.name + ", p50", Unit: "µs", Value: m.p50, Bare: bare.p50},
			table.Row{Name: m.name + ", p99", Unit: "µs", Value: m.p99, Bare: bare.p99})
	}
	return s, err
}
