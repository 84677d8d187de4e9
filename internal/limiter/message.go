package limiter

import (
	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/internal/quotapb/wire"
)

// fromMessage copies a generated message into the codec's form.
func fromMessage(r *wire.Request, m *quotapb.AcquireRequest) {
	*r = wire.Request{
		Protocol:      m.GetProtocol(),
		Holder:        m.GetHolder(),
		Epoch:         m.GetEpoch(),
		Seq:           m.GetSeq(),
		Ack:           m.GetAck(),
		RulesVersion:  m.GetRulesVersion(),
		Wants:         r.Wants[:0],
		Pop:           m.GetPop(),
		TraceParent:   append(r.TraceParent[:0], m.GetTraceParent()...),
		Worker:        m.GetWorker(),
		ProtocolMax:   m.GetProtocolMax(),
		RulesRevision: m.GetRulesRevision(),
		Region:        m.GetRegion(),
		RegionStore:   m.GetRegionStore(),
	}
	for _, w := range m.GetWants() {
		r.Wants = append(r.Wants, wire.Want{
			Rule:      w.GetRule(),
			Variant:   w.GetVariant(),
			Key:       w.GetKey(),
			Group:     w.GetGroup(),
			Need:      w.GetNeed(),
			Waiting:   w.GetWaiting(),
			Want:      w.GetWant(),
			Unused:    w.GetUnused(),
			Lease:     w.GetLease(),
			Overdrawn: w.GetOverdrawn(),
			Denied:    w.GetDenied(),
			Fresh:     w.GetFresh(),
			Next:      w.GetNext(),
			Holding:   w.GetHolding(),
			Debt:      w.GetDebt(),
			Left:      w.GetLeft(),
			ResetMs:   w.GetResetMs(),
			Override:  w.GetOverride(),
			Returned:  returnedOf(w.GetReturned()),
			Soon:      w.GetSoon(),
		})
	}
}

func returnedOf(ms []*quotapb.Returned) (out []wire.Returned) {
	for _, m := range ms {
		out = append(out, wire.Returned{Name: m.GetName(), Units: m.GetUnits()})
	}
	return out
}

// toMessage copies an answer into the generated form.
func toMessage(r *wire.Response) *quotapb.AcquireResponse {
	m := &quotapb.AcquireResponse{
		Protocol:      r.Protocol,
		Epoch:         r.Epoch,
		RulesVersion:  r.RulesVersion,
		Grants:        make([]*quotapb.Grant, len(r.Grants)),
		Holders:       r.Holders,
		Seq:           r.Seq,
		RulesRevision: r.RulesRevision,
		RegionDoubled: r.RegionDoubled,
		Dropped:       r.Dropped,
	}
	grants := make([]quotapb.Grant, len(r.Grants))
	for i := range r.Grants {
		g := &r.Grants[i]
		grants[i].Status = quotapb.Status(g.Status)
		grants[i].Granted = g.Granted
		grants[i].Lease = g.Lease
		grants[i].StartsInMs = g.StartsInMs
		grants[i].TtlMs = g.TTLMs
		grants[i].RetryAfterMs = g.RetryAfterMs
		grants[i].AskAfterMs = g.AskAfterMs
		grants[i].Limit = g.Limit
		grants[i].Remaining = g.Remaining
		grants[i].ResetMs = g.ResetMs
		grants[i].StillOwed = g.StillOwed
		m.Grants[i] = &grants[i]
	}
	return m
}
