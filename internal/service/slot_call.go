package service

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/wire"
)

// maxRequestID bounds the name of a request that takes slots, in bytes.
const maxRequestID = 128

// slot answers a call for the slots of one request. An error is a *rejection.
func (s *Service) slot(ctx context.Context, r *quotav1.SlotRequest) (*quotav1.SlotResponse, error) {
	if err := checkSlot(r); err != nil {
		return nil, err
	}
	rules := s.rules.Load()
	out := &quotav1.SlotResponse{Protocol: r.GetProtocol(), RulesVersion: rules.version}
	p := rules.policy(r.GetRule(), r.GetVariant(), 0, nil, 0).Policy // slots have no limits of single keys
	if p == nil {
		s.metrics.unknown.Inc()
		out.Status = quotav1.Status_STATUS_UNKNOWN_RULE
		return out, nil
	}
	if !p.Limit.Concurrent() {
		return nil, wrong("rule", "%q counts units, not slots; name a rule with algorithm: concurrency, or call Acquire", r.GetRule())
	}
	ask, op := s.slotAsk(p, r)
	grants := make([]lease.Grant, 1)
	s.config.Store.Acquire(ctx, []engine.Ask{ask}, grants)
	answerSlot(out, &grants[0])
	s.metrics.slots.WithLabelValues(p.Rule, op, statusNames[min(grants[0].Status, lease.Unavailable)]).Inc()
	return out, nil
}

// checkSlot rejects a call with anything out of range.
func checkSlot(r *quotav1.SlotRequest) error {
	const maxCost = uint64(limit.MaxCount)
	switch op := r.GetOp(); {
	case !wire.Supported(r.GetProtocol()):
		return otherProtocol(r.GetProtocol(), 0)
	case len(r.GetRule()) > wire.MaxRuleName:
		return wrong("rule", "%d bytes, a rule's name has at most %d", len(r.GetRule()), wire.MaxRuleName)
	case len(r.GetKey()) > wire.MaxKey:
		return wrong("key", "%d bytes, at most %d: long values are sent as their hash", len(r.GetKey()), wire.MaxKey)
	case len(r.GetRequestId()) == 0 || len(r.GetRequestId()) > maxRequestID:
		return wrong("request_id", "%d bytes, must be 1 to %d", len(r.GetRequestId()), maxRequestID)
	case op < quotav1.SlotOp_SLOT_OP_TAKE || op > quotav1.SlotOp_SLOT_OP_RELEASE:
		return wrong("op", "%d, must be 1 (take), 2 (renew) or 3 (release)", op)
	case r.GetCost() > maxCost:
		return wrong("cost", "%d, must be 0 to %d slots", r.GetCost(), maxCost)
	}
	return nil
}

// slotAsk is the ask of a call that has been checked, and the name of what it does.
func (s *Service) slotAsk(p *engine.Policy, r *quotav1.SlotRequest) (a engine.Ask, op string) {
	a = engine.Ask{Policy: p, Key: rule.ShortKey(slices.Clone(r.GetKey())), Holder: s.requestHolder(r.GetRequestId())}
	switch r.GetOp() {
	case quotav1.SlotOp_SLOT_OP_TAKE:
		cost := max(int64(r.GetCost()), 1)
		a.Op, op = engine.Take, "take"
		a.Want = lease.Want{Need: cost, Waiting: cost, Want: cost}
	case quotav1.SlotOp_SLOT_OP_RENEW:
		a.Op, op = engine.Renew, "renew"
	default:
		a.Op, op = engine.Release, "release"
	}
	return a, op
}

// answerSlot puts a grant into the answer.
func answerSlot(out *quotav1.SlotResponse, g *lease.Grant) {
	out.Status = quotav1.Status(g.Status)
	out.Granted, out.TtlMs, out.AskAfterMs = uint64(g.Granted), uint64(g.TTL), uint64(g.AskAfter)
	out.Limit, out.Remaining, out.RetryAfterMs = uint64(g.Limit), uint64(g.Remaining), wire.Ms(g.RetryAfter)
}

// slotHolder names a holder of slots: a process has one for each of its workers,
// distinguished by the lease field, which is the number of the worker that calls. The
// order of its statements is that worker's sequence.
func slotHolder(r *wire.Request, worker uint64) uint64 {
	return max(engine.Hash(r.Holder, worker), 1)
}

// requestHolder names a request as a holder of slots: a hash on which all replicas agree,
// and which clients cannot choose without the seed.
func (s *Service) requestHolder(id []byte) uint64 {
	in := make([]byte, 0, 8+len(s.config.SlotSeed)+maxRequestID)
	in = binary.BigEndian.AppendUint64(in, uint64(len(s.config.SlotSeed)))
	in = append(append(in, s.config.SlotSeed...), id...)
	sum := sha256.Sum256(in)
	return max(binary.BigEndian.Uint64(sum[:]), 1)
}
