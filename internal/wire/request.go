package wire

import (
	"unicode/utf8"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
)

// Request is an AcquireRequest.
type Request struct {
	Protocol      uint32
	Holder        []byte // 16 bytes
	Seq           uint64
	Ack           uint64
	RulesVersion  string
	Wants         []Want
	Pop           string
	TraceParent   []string
	Worker        uint64
	ProtocolMax   uint32
	RulesRevision uint64
	Region        string
	Reserve       *reserve.Statement
}

// Append appends the encoded message to dst and returns the longer slice.
func (m *Request) Append(dst []byte) []byte {
	dst = appendUint(dst, 1, uint64(m.Protocol))
	dst = appendBytes(dst, 2, m.Holder)
	dst = appendUint(dst, 4, m.Seq)
	dst = appendUint(dst, 5, m.Ack)
	dst = appendBytes(dst, 6, m.RulesVersion)
	for i := range m.Wants {
		dst = append(dst, 7<<3|typeBytes, 0)
		start := len(dst)
		dst = closeNested(m.Wants[i].append(dst), start)
	}
	dst = appendBytes(dst, 8, m.Pop)
	for _, s := range m.TraceParent {
		dst = appendVarint(append(dst, 9<<3|typeBytes), uint64(len(s)))
		dst = append(dst, s...) // an empty one is an element too
	}
	dst = appendUint(dst, 10, m.Worker)
	dst = appendUint(dst, 11, uint64(m.ProtocolMax))
	dst = appendUint(dst, 12, m.RulesRevision)
	dst = appendBytes(dst, 13, m.Region)
	return appendStatement(dst, m.Reserve)
}

// Decode reads b into m, replacing all of it. On an error m has no meaning.
func (m *Request) Decode(b []byte) error {
	old := *m
	*m = Request{Wants: old.Wants[:0], TraceParent: old.TraceParent[:0]}
	r := newReader(b, MaxMessage)
	for r.next() {
		switch r.tag {
		case 1<<3 | typeVarint:
			m.Protocol = uint32(r.num)
		case 2<<3 | typeBytes:
			m.Holder = r.bytes()
		case 4<<3 | typeVarint:
			m.Seq = r.num
		case 5<<3 | typeVarint:
			m.Ack = r.num
		case 6<<3 | typeBytes:
			m.RulesVersion = r.text(old.RulesVersion)
		case 7<<3 | typeBytes:
			if w := extend(&r, &m.Wants, MaxWants); w != nil {
				w.decode(&r)
			}
		case 8<<3 | typeBytes:
			if m.Pop = ""; utf8.Valid(r.bytes()) {
				m.Pop = r.text(old.Pop)
			}
		case 9<<3 | typeBytes:
			if len(m.TraceParent) < MaxTraceParents && utf8.Valid(r.bytes()) {
				s := extend(&r, &m.TraceParent, MaxTraceParents)
				*s = r.text(*s)
			}
		case 10<<3 | typeVarint:
			m.Worker = r.num
		case 11<<3 | typeVarint:
			m.ProtocolMax = uint32(r.num)
		case 12<<3 | typeVarint:
			m.RulesRevision = r.num
		case 13<<3 | typeBytes:
			m.Region = r.text(old.Region)
		case 15<<3 | typeBytes:
			m.Reserve = decodeStatement(&r, m.Reserve)
		}
	}
	return r.failure("AcquireRequest")
}

// Want is a Want: the name of a counter, and what is asked and reported of it.
type Want struct {
	Rule     string
	Variant  uint32
	Override uint64
	Key      []byte
	Group    uint32
	// Shape is the upper half of the number that names a lease, and lease.Want.Lease is the
	// lower one: the fingerprint of the limit that was charged. See also [Want.Worker].
	Shape uint32
	lease.Want
}

func (w *Want) append(dst []byte) []byte {
	dst = appendBytes(dst, 1, w.Rule)
	dst = appendUint(dst, 2, uint64(w.Variant))
	dst = appendBytes(dst, 3, w.Key)
	dst = appendUint(dst, 4, uint64(w.Group))
	dst = appendUint(dst, 5, uint64(w.Need))
	dst = appendUint(dst, 6, uint64(w.Waiting))
	dst = appendUint(dst, 7, uint64(w.Want.Want))
	dst = appendUint(dst, 8, uint64(w.Unused))
	dst = appendUint(dst, 9, leaseNumber(w.Shape, w.Lease))
	dst = appendUint(dst, 10, uint64(w.Overdrawn))
	dst = appendUint(dst, 11, uint64(w.Denied))
	dst = appendBool(dst, 12, w.Fresh)
	dst = appendBool(dst, 13, w.Next)
	dst = appendUint(dst, 14, uint64(w.Holding))
	dst = appendUint(dst, 15, w.Debt)
	dst = appendUint(dst, 18, w.Override)
	dst = appendUint(dst, 20, uint64(w.Soon))
	return appendUint(dst, 21, uint64(w.Settled))
}

func (w *Want) decode(r *reader) {
	rule := w.Rule
	*w = Want{}
	outer := r.enter()
	for r.next() {
		switch r.tag {
		case 1<<3 | typeBytes:
			w.Rule = r.text(rule)
		case 2<<3 | typeVarint:
			w.Variant = uint32(r.num)
		case 3<<3 | typeBytes:
			w.Key = r.bytes()
		case 4<<3 | typeVarint:
			w.Group = uint32(r.num)
		case 5<<3 | typeVarint:
			w.Need = int64(r.num)
		case 6<<3 | typeVarint:
			w.Waiting = int64(r.num)
		case 7<<3 | typeVarint:
			w.Want.Want = int64(r.num)
		case 8<<3 | typeVarint:
			w.Unused = int64(r.num)
		case 9<<3 | typeVarint:
			w.Shape, w.Lease = uint32(r.num>>32), uint32(r.num)
		case 10<<3 | typeVarint:
			w.Overdrawn = int64(r.num)
		case 11<<3 | typeVarint:
			w.Denied = int64(r.num)
		case 12<<3 | typeVarint:
			w.Fresh = r.num != 0
		case 13<<3 | typeVarint:
			w.Next = r.num != 0
		case 14<<3 | typeVarint:
			w.Holding = int64(r.num)
		case 15<<3 | typeVarint:
			w.Debt = r.num
		case 18<<3 | typeVarint:
			w.Override = r.num
		case 20<<3 | typeVarint:
			w.Soon = int64(r.num)
		case 21<<3 | typeVarint:
			w.Settled = int64(r.num)
		}
	}
	r.leave(outer)
}

// Bounds on what a granter takes. A sender keeps within them: a want beyond them is
// answered as unavailable, alone or with its group.
const (
	MaxRuleName = 130       // bytes: 64 as it is written, two suffixes of 32 and their @
	MaxKey      = 8192      // bytes: sixteen parts of the longest kind
	MaxPop      = 128       // bytes; more are not used
	MaxGroup    = 64        // wants of one group
	MaxUnits    = 1<<32 - 1 // of any number of units
)

// Bound cuts what a holder sends to the bounds. The names are its own business.
func (w *Want) Bound() {
	w.Need, w.Waiting, w.Want.Want = bounded(w.Need), bounded(w.Waiting), bounded(w.Want.Want)
	w.Soon = min(bounded(w.Soon), w.Want.Want-w.Waiting)
	w.Unused, w.Overdrawn, w.Denied = bounded(w.Unused), bounded(w.Overdrawn), bounded(w.Denied)
	w.Holding, w.Settled = bounded(w.Holding), bounded(w.Settled)
}

func bounded(units int64) int64 { return min(max(units, 0), MaxUnits) }

// Check is the first field of a want that a granter rejects, "" if there is none.
func (w *Want) Check() (field string) {
	need, waiting, want := uint64(w.Need), uint64(w.Waiting), uint64(w.Want.Want)
	switch {
	case len(w.Rule) > MaxRuleName:
		return "rule"
	case len(w.Key) > MaxKey:
		return "key"
	case need > waiting: // need <= waiting <= want
		return "need"
	case waiting > want:
		return "waiting"
	case want > MaxUnits:
		return "want"
	case uint64(w.Soon) > want-waiting:
		return "soon"
	case uint64(w.Unused) > MaxUnits:
		return "unused"
	case uint64(w.Overdrawn) > MaxUnits:
		return "overdrawn"
	case uint64(w.Denied) > MaxUnits:
		return "denied"
	case uint64(w.Holding) > MaxUnits:
		return "holding"
	case uint64(w.Settled) > MaxUnits:
		return "settled"
	}
	return ""
}

// For is what is wanted of a counter of a limit. What is given back or settled to a counter of another
// shape is dropped: that counter is not in use any more.
func (w *Want) For(l *limit.Limit) lease.Want {
	want := w.Want
	if w.Shape != l.Fingerprint() {
		want.Unused, want.Settled = 0, 0
	}
	return want
}

// Worker is the number of the worker of a holder that states its slots: it stands where
// others name a lease.
func (w *Want) Worker() uint64 { return leaseNumber(w.Shape, w.Lease) }

// SetWorker sets Worker.
func (w *Want) SetWorker(number uint64) { w.Shape, w.Lease = uint32(number>>32), uint32(number) }

// leaseNumber names a lease: the shape of the limit that was charged, and the period.
func leaseNumber(shape, period uint32) uint64 { return uint64(shape)<<32 | uint64(period) }
