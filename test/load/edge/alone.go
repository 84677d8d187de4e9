//go:build linux

package edge

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/load/table"
)

const (
	fewKeys  = 100
	manyKeys = 10_000
)

// alone measures what the filter costs where Envoy answers itself: nothing but the filter differs
// from bare Envoy, which is measured first and last in each round.
func (b *bench) alone() []table.Section {
	envoyWith := func(name string, filter func(*envoy.Bootstrap)) *envoy.Envoy {
		return b.pop("alone-"+name, func(e *envoy.Bootstrap) { answerItself(e); filter(e) })
	}
	bare := envoyWith("bare", func(e *envoy.Bootstrap) { e.SetFilter(nil) })
	local := envoyWith("local", func(e *envoy.Bootstrap) { e.SetLocalRateLimit(10_000_000) })
	rejecting := envoyWith("rejecting", func(e *envoy.Bootstrap) { e.SetLocalRateLimit(0) })
	filters := newFilters()
	for _, f := range filters {
		f.one = b.place(f.prefix+"alone-one", aloneRules, "/one/thing", answerItself, f.edit)
		f.three = b.place(f.prefix+"alone-three", threeRules, "/three/thing", answerItself, f.edit)
	}

	ms := modes{bench: b, keys: manyKeys}
	few, many := drive.Uniform(fewKeys, 1), drive.Uniform(manyKeys, 1)
	first := ms.add("bare Envoy, first", bare, "/one/thing", many, answered)
	ms.add("local_ratelimit, allowing", local, "/one/thing", many, answered)
	rejects := ms.add("local_ratelimit, rejecting", rejecting, "/one/thing", many, rejected)
	var denied []*mode
	for _, f := range filters {
		one, three := f.one, f.three
		ms.weir(f.name+", no rule matches", one, "/none/thing", many, answered)
		ms.weir(f.name+", one rule, one key", one, "/hot/thing", drive.Hot(), answered, "hot")
		ms.weir(f.name+", one rule, 100 keys", one, "/one/thing", few, answered, "one")
		ms.weir(f.name+", one rule, 10,000 keys, warm", one, "/one/thing", many, answered, "one")
		ms.weir(f.name+", one rule, 10,000 keys, first pass", one, "/first/thing", passing(manyKeys, 1), answered, "first")
		ms.weir(f.name+", three rules, one key", three, "/three-hot/thing", drive.Hot(), answered,
			"user-hot", "address-hot", "total-hot")
		ms.weir(f.name+", three rules, 10,000 keys, warm", three, "/three/thing", many, answered,
			"user", "address", "total")
		denied = append(denied, ms.weir(f.name+", nearly all rejected", one, "/rejected/thing", few, rejected, "rejected"))
	}
	last := ms.add("bare Envoy, last", bare, "/one/thing", many, answered)
	for _, m := range ms.all {
		if m.at != nil { // the first leases after a rest are small
			m.Settle = b.resume
		}
	}
	ms.run(drive.Pace{Duration: b.round}, b.rounds)

	s := table.Section{Title: fmt.Sprintf("Envoy answers itself, closed loop, %d connections: CPU of Envoy", openConns)}
	both := slices.Concat(first.CPU, last.CPU)
	for _, m := range ms.all {
		peer := both
		if slices.Contains(denied, m) {
			peer = rejects.CPU
		}
		s.Rows = append(s.Rows, m.row(peer))
	}
	return []table.Section{s}
}

// passing draws from the last n keys; every tenth draw is the first of a new key. So a key is drawn about
// ten times, and then never again.
func passing(n uint32, seed uint64) drive.Keys {
	rng, next := rand.New(rand.NewPCG(seed, uint64(n))), n
	return func() uint32 {
		if rng.Uint32N(10) > 0 {
			return next - 1 - rng.Uint32N(n)
		}
		next++
		return next - 1
	}
}
