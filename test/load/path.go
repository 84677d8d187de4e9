//go:build linux

package main

import (
	"context"
	"fmt"

	"github.com/weirlimit/weir/test/load/drive"
	"github.com/weirlimit/weir/test/load/measure"
	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/table"
)

// wholePath measures Envoy and the region together, with the leases of everyday
// use.
func (b *bench) wholePath(ctx context.Context) (table.Section, error) {
	s := table.Section{Title: "Whole path (Envoy + region), 20,000 requests per second offered, limit 1000/1m"}
	place, err := b.place(ctx, "path", pathRules)
	if err != nil {
		return s, err
	}
	defer place.stop()
	ms := modes{b: b, conns: openConns}
	bare := ms.add("bare Envoy, CPU", b.bare, "/uniform/thing", drive.Uniform(keys, 3), answered)
	uniform := ms.add("Weir, 10,000 uniform keys, CPU", place.pop, "/uniform/thing", drive.Uniform(keys, 3), answered)
	zipf := ms.add("Weir, Zipf, CPU", place.pop, "/zipf/thing", drive.Zipf(keys, zipfExponent, 3), 0)
	if ms.err != nil {
		return s, ms.err
	}
	uniform.target = table.Target{Kind: table.Times, Bound: 2}
	uniform.procs = append(uniform.procs, place.region.Process)
	zipf.procs = uniform.procs

	load := drive.Load{Duration: b.plan.chunk, Rate: pathRate}
	var asked [2]traffic
	for i, m := range []*mode{uniform, zipf} {
		if err := bare.round(ctx, load); err != nil { // before each: what bare costs now
			return s, err
		}
		if asked[i], err = b.traffic(ctx, place, m, load); err != nil {
			return s, err
		}
	}
	if err := bare.round(ctx, load); err != nil {
		return s, err
	}
	if b.profile {
		functions, err := b.profileRegion(ctx, zipf, place)
		if err != nil {
			return s, err
		}
		b.profiles = append(b.profiles, functions)
	}
	s.Rows = append(s.Rows, bare.row(bare, pathRate))
	s.Rows = append(s.Rows, pathRows(uniform, bare, asked[0], table.Target{})...)
	s.Rows = append(s.Rows, pathRows(zipf, bare, asked[1], table.Target{Kind: table.AtMost, Bound: 5})...)
	return s, nil
}

// traffic is what a PoP asked of its region while it decided.
type traffic struct {
	waited measure.Sample // per cent of the decisions, per chunk
	wants  measure.Sample // per decision
}

// traffic lets m settle and measures it in chunks.
func (b *bench) traffic(ctx context.Context, at *place, m *mode, load drive.Load) (traffic, error) {
	var t traffic
	settle := load
	settle.Duration = b.plan.settle
	if err := m.warmUp(ctx, settle); err != nil {
		return t, err
	}
	before, err := at.asked(ctx)
	if err != nil {
		return t, err
	}
	for range b.plan.chunks {
		if err := m.round(ctx, load); err != nil {
			return t, err
		}
		after, err := at.asked(ctx)
		if err != nil {
			return t, err
		}
		decisions := after.decisions - before.decisions
		if decisions == 0 {
			return t, fmt.Errorf("%s: the filter counted no decision", m.name)
		}
		t.waited = append(t.waited, 100*(after.waits-before.waits)/decisions)
		t.wants = append(t.wants, (after.wants-before.wants)/decisions)
		before = after
	}
	return t, nil
}

// asked is what the counters of a place say.
type asked struct{ decisions, waits, wants float64 }

func (p *place) asked(ctx context.Context) (asked, error) {
	edge, err := p.pop.Metrics(ctx)
	if err != nil {
		return asked{}, err
	}
	region, err := p.region.Metrics(ctx)
	if err != nil {
		return asked{}, err
	}
	return asked{
		decisions: edge.Sum("weir_decisions"),
		waits:     edge.Sum("weir_waits"),
		wants:     region.Sum("weir_wants_total"),
	}, nil
}

func pathRows(m, bare *mode, t traffic, waits table.Target) []table.Row {
	return []table.Row{
		m.row(bare, pathRate),
		{Name: m.name + " of Envoy", Unit: "µs/req", Value: m.parts[0], Bare: bare.cpu},
		{Name: m.name + " of the region", Unit: "µs/req", Value: m.parts[1]},
		{Name: m.name + ": decisions that waited", Unit: "%", Value: t.waited, Target: waits},
		{Name: m.name + ": wants per decision", Unit: "wants", Value: t.wants},
	}
}

// place is a PoP with a region of its own.
type place struct {
	pop    *rig.Envoy
	region *rig.Region
}

func (b *bench) place(ctx context.Context, name, rules string) (*place, error) {
	region, err := b.Region(ctx, name+"-region", rules)
	if err != nil {
		return nil, err
	}
	pop, err := b.Weir(ctx, name+"-pop", b.upstream, region)
	return &place{pop: pop, region: region}, err
}

func (p *place) stop() {
	p.pop.Stop()
	p.region.Stop()
}
