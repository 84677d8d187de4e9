package limiter

import (
	"fmt"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/quotapb/wire"
)

// Bounds on a call beside those of package wire. What is larger is refused as a
// whole, with the field that is wrong.
const (
	MaxRuleName = 64   // bytes
	MaxKey      = 8192 // bytes: sixteen parts of the longest kind
	MaxPop      = 128  // bytes
	MaxGroup    = 64   // wants of one request
)

// RequestError says which field of a call is wrong and what it may be. Nothing of
// the call was applied.
type RequestError struct {
	Field  string // as in quota.proto, such as wants[3].need
	Reason string // what it is, what is allowed
}

func (e *RequestError) Error() string { return e.Field + ": " + e.Reason }

// ProtocolError says that the two sides speak different protocols. Nothing of the
// call was applied.
type ProtocolError struct{ Got uint32 }

func (e *ProtocolError) Error() string {
	return fmt.Sprintf("protocol: the holder speaks %d, this region speaks %d; run a filter and a region of the same release",
		e.Got, wire.Protocol)
}

func wrong(field, reason string, args ...any) error {
	return &RequestError{Field: field, Reason: fmt.Sprintf(reason, args...)}
}

// check refuses a call with anything out of range.
func check(r *wire.Request) error {
	switch {
	case r.Protocol != wire.Protocol:
		return &ProtocolError{Got: r.Protocol}
	case len(r.Holder) != len(HolderID{}):
		return wrong("holder", "%d bytes, must be 16 random ones, made once per process", len(r.Holder))
	case r.Seq == 0:
		return wrong("seq", "0, must be 1 for a holder's first call and larger for each one after it")
	case r.Ack >= r.Seq:
		return wrong("ack", "%d, must be less than seq (%d): the largest seq that was answered", r.Ack, r.Seq)
	case len(r.Wants) > wire.MaxWants:
		return wrong("wants", "%d of them, at most %d: ask in several calls", len(r.Wants), wire.MaxWants)
	case len(r.TraceParent) > wire.MaxTraceParents:
		return wrong("trace_parent", "%d of them, at most %d", len(r.TraceParent), wire.MaxTraceParents)
	case len(r.Pop) > MaxPop:
		return wrong("pop", "%d bytes, at most %d", len(r.Pop), MaxPop)
	}
	for i := range r.Wants {
		if field, reason := checkWant(&r.Wants[i]); field != "" {
			return wrong(fmt.Sprintf("wants[%d].%s", i, field), "%s", reason)
		}
	}
	return nil
}

// checkWant names the first field that is out of range, if any.
func checkWant(w *wire.Want) (field, reason string) {
	const most = uint64(limit.MaxCount)
	switch {
	case len(w.Rule) > MaxRuleName:
		return "rule", fmt.Sprintf("%d bytes, a rule's name has at most %d", len(w.Rule), MaxRuleName)
	case len(w.Key) > MaxKey:
		return "key", fmt.Sprintf("%d bytes, at most %d: long values are sent as their hash", len(w.Key), MaxKey)
	case w.Need > w.Waiting:
		return "need", fmt.Sprintf("%d is more than waiting (%d): need <= waiting <= want", w.Need, w.Waiting)
	case w.Waiting > w.Want:
		return "waiting", fmt.Sprintf("%d is more than want (%d): need <= waiting <= want", w.Waiting, w.Want)
	case w.Want > most:
		return "want", tooMany(w.Want)
	case w.Unused > most:
		return "unused", tooMany(w.Unused)
	case w.Overdrawn > most:
		return "overdrawn", tooMany(w.Overdrawn)
	case w.Denied > most:
		return "denied", tooMany(w.Denied)
	case w.Holding > most:
		return "holding", tooMany(w.Holding)
	}
	return "", ""
}

func tooMany(units uint64) string {
	return fmt.Sprintf("%d, must be 0 to %d units", units, limit.MaxCount)
}

// checkGroups refuses a group that is too large, or that names a rule twice: a
// request matches a rule once. The asks of a group are adjacent; index maps an
// ask to its place in the call.
func checkGroups(asks []Ask, index []int32) error {
	for i := 0; i < len(asks); {
		n := GroupLen(asks[i:])
		if n > MaxGroup {
			return wrong(fmt.Sprintf("wants[%d].group", index[i]), "group %d has %d wants, at most %d", asks[i].Group, n, MaxGroup)
		}
		for j := i + 1; j < i+n; j++ {
			for k := i; k < j; k++ {
				if asks[j].Policy.Rule == asks[k].Policy.Rule {
					return wrong(fmt.Sprintf("wants[%d].group", index[j]), "group %d has rule %q in wants[%d] already: a group is one request, which a rule counts once",
						asks[j].Group, asks[j].Policy.Rule, index[k])
				}
			}
		}
		i += n
	}
	return nil
}
