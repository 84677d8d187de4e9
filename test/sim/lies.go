package sim

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/quotapb/wire"
)

// lies follows a call of a PoP that lies: it says that units come back which nobody ever
// had, of leases that it knows of and of others; it shows the epoch of a life that never
// was.
func (f *flight) lies() {
	p, w := f.p, f.p.w
	if w.chance(0.3) {
		lie := p.aside(f)
		for _, m := range f.req.Wants {
			r := w.rules.find(m.Rule)
			l := uint64(p.entry(r.counter(string(m.Key))).Lots[w.rand.IntN(2)].Lease)
			if w.chance(0.3) {
				l += uint64(w.rand.IntN(3))
			}
			units := pick(w.rand, wire.MaxUnits, 1<<31, 2*uint64(r.Terms.Capacity)+1)
			lie.req.Wants = append(lie.req.Wants, wire.Want{Rule: m.Rule, Variant: m.Variant, Override: m.Override, Key: m.Key,
				Unused: units, Lease: uint64(r.Limit.Fingerprint())<<32 | l})
			w.ref.lies[limiter.ReturnID(lie.holder(), lie.req.Worker, lie.req.Seq, len(lie.req.Wants)-1)] = true
		}
		lie.fly()
	}
	if w.chance(0.1) {
		empty := p.aside(f)
		empty.req.Epoch = w.rand.Uint64()
		for _, m := range f.req.Wants {
			empty.req.Wants = append(empty.req.Wants, wire.Want{Rule: m.Rule, Variant: m.Variant, Override: m.Override, Key: m.Key})
		}
		empty.fly()
	}
}

// aside is another call of the same PoP, without wants, that no worker has made.
func (p *pop) aside(f *flight) *flight {
	again := &flight{p: p, life: p.life, path: f.path, sent: f.sent, timeout: f.timeout, done: true, aside: true}
	again.req = decodeRequest(f.body)
	again.req.Wants = nil
	p.lieSeq++
	again.req.Seq, again.req.Ack, again.req.Worker = p.lieSeq, 0, 1
	binary.LittleEndian.PutUint64(again.req.Holder[8:], 1)
	return again
}

// fly sends such a call.
func (f *flight) fly() {
	f.body = f.req.Append(nil)
	f.p.w.held(func() { f.send(f.p.above) })
}

// name tells calls apart.
func (f *flight) name() seen { return seen{string(f.holder()), f.req.Worker, f.req.Seq} }

// holder is the name of the PoP as a region reads it.
func (f *flight) holder() []byte {
	id := append([]byte(nil), f.req.Holder...)
	clear(id[8:])
	return id
}

func pick[T any](rnd *rand.Rand, of ...T) T { return of[rnd.IntN(len(of))] }
