//go:build linux

package edge

import (
	"context"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/load/rig"
	"github.com/weirlimit/weir/test/load/table"
)

// wholePath measures Envoy and the region together, with the leases of everyday
// use.
func (b *bench) wholePath(ctx context.Context) ([]table.Section, error) {
	s := table.Section{Title: "Whole path (Envoy + region), 20,000 requests per second offered, limit 1000/1m"}
	at, err := b.place(ctx, "path", pathRules, "/uniform/thing")
	if err != nil {
		return nil, err
	}
	defer at.stop()
	flat := drive.Uniform(b.plan.keys, 3)
	ms := modes{b: b, conns: openConns}
	bare := ms.add("bare Envoy", b.bare, "/uniform/thing", flat, answered)
	uniform := ms.weir("Weir, uniform keys", at, "/uniform/thing", flat, answered, "uniform")
	zipf := ms.weir("Weir, Zipf", at, "/zipf/thing", drive.Zipf(int(b.plan.keys), zipfExponent, 3), 0, "zipf")
	if ms.err != nil {
		return nil, ms.err
	}
	uniform.target = table.Target{Kind: table.Times, Bound: 2}

	load := drive.Pace{Duration: b.plan.chunk, Rate: pathRate}
	chunks := map[*mode][]traffic{}
	for _, m := range []*mode{uniform, zipf} {
		m.Meters = append(m.Meters, rig.Meter(at.region.Process))
		if err := bare.Round(ctx, load); err != nil { // before each: what bare costs now
			return nil, err
		}
		if chunks[m], err = b.chunks(ctx, m, load); err != nil {
			return nil, err
		}
	}
	if err := bare.Round(ctx, load); err != nil {
		return nil, err
	}
	s.Rows = append(s.Rows, bare.row(bare, pathRate))
	s.Rows = append(s.Rows, pathRows(uniform, bare, chunks[uniform], table.Target{})...)
	s.Rows = append(s.Rows, pathRows(zipf, bare, chunks[zipf], table.Target{Kind: table.AtMost, Bound: 5})...)
	return []table.Section{s}, nil
}

// chunks lets m settle and measures it in chunks, without a rest between them.
func (b *bench) chunks(ctx context.Context, m *mode, load drive.Pace) ([]traffic, error) {
	settle := load
	settle.Duration = b.plan.settle
	if err := m.WarmUp(ctx, settle); err != nil {
		return nil, err
	}
	begin, err := m.asked(ctx)
	if err != nil {
		return nil, err
	}
	var chunks []traffic
	for before := begin; len(chunks) < b.plan.chunks; {
		if err := m.Round(ctx, load); err != nil {
			return nil, err
		}
		now, err := m.asked(ctx)
		if err != nil {
			return nil, err
		}
		chunks = append(chunks, now.since(before))
		m.traffic, before = now.since(begin), now
	}
	return chunks, nil
}

func pathRows(m, bare *mode, chunks []traffic, waits table.Target) []table.Row {
	var waited, wants measure.Sample
	for _, t := range chunks {
		if t.decisions == 0 {
			continue // counted nothing: the rows state that they were not measured
		}
		waited = append(waited, t.waited())
		wants = append(wants, t.wanted())
	}
	return []table.Row{
		m.row(bare, pathRate),
		{Name: m.Name + ": of that Envoy", Unit: "µs/req", Value: m.Parts[0], Peer: bare.CPU},
		{Name: m.Name + ": of that the region", Unit: "µs/req", Value: m.Parts[1]},
		{Name: m.Name + ": decisions that waited", Unit: "%", Value: waited, Target: waits},
		{Name: m.Name + ": wants per decision", Unit: "wants", Value: wants},
	}
}
