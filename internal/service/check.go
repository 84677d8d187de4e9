package service

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"connectrpc.com/connect"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/wire"
)

// rejection rejects a call as a whole: nothing of it was applied.
type rejection struct {
	error
	code   connect.Code
	caller bool // whether the caller is at fault: then it is logged here
}

// wrong rejects a call because of a field, as in quota.proto: what it is, and what is allowed.
func wrong(field, reason string, args ...any) error {
	return &rejection{fmt.Errorf("%s: %s", field, fmt.Sprintf(reason, args...)), connect.CodeInvalidArgument, true}
}

// otherProtocol rejects a call of which the two sides have no version of the protocol in common. The caller has oldest
// to newest.
func otherProtocol(oldest, newest uint32) error {
	return &rejection{fmt.Errorf("protocol: the holder supports %s, this region supports %s; update the older one",
		wire.Versions(oldest, newest), wire.Versions(wire.ProtocolMin, wire.ProtocolMax)), connect.CodeFailedPrecondition, true}
}

// check rejects a call as a whole if its caller is broken. A want that is out of range is
// rejected by itself, see [Service.prepare]: it may come from one client, and the other wants
// of the call do not. With divides the caller has to be a replica of a region.
func check(r *wire.Request, divides bool) error {
	if _, ok := wire.Common(r.Protocol, r.ProtocolMax); !ok {
		return otherProtocol(r.Protocol, r.ProtocolMax)
	}
	switch {
	case len(r.Holder) != len(holderID{}):
		return wrong("holder", "%d bytes, must be 16 random ones, made once per process", len(r.Holder))
	case r.Seq == 0:
		return wrong("seq", "0, must be 1 for a holder's first call and larger for each one after it")
	case r.Ack >= r.Seq:
		return wrong("ack", "%d, must be less than seq (%d): the largest seq that was answered", r.Ack, r.Seq)
	case r.Region != "" && !rule.IsRegion(r.Region):
		return wrong("region", "%.64q is no name of a region, which has %s", r.Region, rule.RegionForm)
	case r.Region == "" && divides:
		return wrong("region", "is missing: limits are divided among regions here; call weir-regional, or state a region")
	case len(r.Wants) > wire.MaxWants:
		return wrong("wants", "%d of them, at most %d: ask in several calls", len(r.Wants), wire.MaxWants)
	}
	return nil
}

// rejectWant answers want i as unavailable, because this field is out of range. The holder's
// on_failure decides then.
func (s *Service) rejectWant(x *exchange, i int32, field string) {
	x.response.Grants[i] = wire.Grant{Grant: lease.Grant{Status: lease.Unavailable}}
	s.metrics.wantsRejected.WithLabelValues(field).Inc()
	s.notices.warn(&s.notices.wants, x, "want rejected: field out of range", "field", field)
}

// rejectGroups rejects groups of which not all can be decided: too large ones,
// those that name a rule twice, which no request at a PoP does, or from a region a counter
// twice, which the requests of Envoy's rate limit service do not; and those of which a want was
// rejected already. The asks of a group are adjacent.
func (s *Service) rejectGroups(x *exchange, broken []uint32) {
	kept := 0
	for i := 0; i < len(x.asks); {
		n := engine.GroupLen(x.asks[i:])
		if group := x.asks[i : i+n]; n > 1 && (n > wire.MaxGroup || repeats(group, x.request.Region != "")) || slices.Contains(broken, group[0].Group) {
			for j := range group {
				s.rejectWant(x, x.index[i+j], "group")
			}
		} else {
			copy(x.asks[kept:], group)
			copy(x.index[kept:], x.index[i:i+n])
			kept += n
		}
		i += n
	}
	x.asks, x.index = x.asks[:kept], x.index[:kept]
}

// repeats reports whether a group has a rule twice, or, by key, a counter.
func repeats(group []engine.Ask, byKey bool) bool {
	for i := range group {
		for j := range i {
			if group[i].Policy.Rule == group[j].Policy.Rule && (!byKey || bytes.Equal(group[i].Key, group[j].Key)) {
				return true
			}
		}
	}
	return false
}

// Reserves hears what regions state of their reserves. It is safe for concurrent use.
type Reserves interface {
	// Heard takes what a call of a region states, before it is decided; nil: nothing. The reply goes with the answer;
	// nil: there is none yet. An error rejects the whole call, for the region as if nobody had answered.
	Heard(region string, s *reserve.Statement) (*reserve.Reply, error)
}

// hear passes on what a call of a region states.
func (s *Service) hear(x *exchange) error {
	x.response.Reserve = nil
	if s.config.Reserves == nil || x.request.Region == "" {
		return nil
	}
	reply, err := s.config.Reserves.Heard(x.request.Region, x.request.Reserve)
	x.response.Reserve = reply
	var impossible *reserve.StatementError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &impossible):
		return &rejection{err, connect.CodeInvalidArgument, false}
	case errors.Is(err, reserve.ErrOtherRecord), errors.Is(err, reserve.ErrTooManyRegions):
		return &rejection{err, connect.CodeFailedPrecondition, false}
	}
	return &rejection{err, connect.CodeUnavailable, false}
}
