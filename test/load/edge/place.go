//go:build linux

package edge

import (
	"context"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
)

// place is a PoP with a region of its own.
type place struct {
	pop    *envoy.Envoy
	region *region.Region
}

// place starts a region with rules, and a PoP that has got them: one of the rules
// applies to path.
func (b *bench) place(ctx context.Context, name, rules, path string) (*place, error) {
	r, err := b.Region(name+"-region", rules)
	if err != nil {
		return nil, err
	}
	pop, err := b.Weir(name+"-pop", b.upstream, r, path)
	return &place{pop: pop, region: r}, err
}

func (p *place) stop() {
	p.pop.Stop()
	p.region.Stop()
}

// traffic is what a PoP decided and what it asked of its region for that, in
// counters.
type traffic struct{ decisions, waits, wants float64 }

// asked reads the traffic of a mode's rules so far; nothing for what is not Weir.
func (m *mode) asked(ctx context.Context) (t traffic, err error) {
	if m.at == nil {
		return t, nil
	}
	select {
	case <-ctx.Done():
		return t, ctx.Err()
	case <-time.After(250 * time.Millisecond): // the filter adds up at every tick
	}
	defer proc.Recover(&err)
	edge, region := m.at.pop.Metrics(), m.at.region.Metrics()
	for _, rule := range m.rules {
		label := `rule="` + rule + `"`
		t.decisions += edge.Sum("weir_decisions", label)
		t.waits += edge.Sum("weir_waits", label)
		t.wants += region.Sum("weir_wants_total", label)
	}
	return t, nil
}

func (t traffic) since(earlier traffic) traffic {
	return traffic{t.decisions - earlier.decisions, t.waits - earlier.waits, t.wants - earlier.wants}
}

// waited is the share of the decisions that waited for the region, in per cent.
func (t traffic) waited() float64 { return 100 * t.waits / t.decisions }

// wanted is the wants per decision.
func (t traffic) wanted() float64 { return t.wants / t.decisions }
