package wire

import (
	"errors"
	"strconv"
	"unicode/utf8"

	"github.com/weirlimit/weir/internal/lease"
)

// Decode reads b into m, replacing all of it. On an error, an *Error, m is empty.
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
		case 3<<3 | typeVarint:
			m.Epoch = r.num
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
	err := r.failure("AcquireRequest")
	if err != nil {
		*m = Request{Wants: m.Wants[:0], TraceParent: m.TraceParent[:0]}
	}
	return err
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
		}
	}
	r.leave(outer)
}

// Decode reads b into m, replacing all of it. On an error, an *Error, m is empty.
func (m *Response) Decode(b []byte) error {
	old := *m
	*m = Response{Grants: old.Grants[:0]}
	r := newReader(b, MaxMessage)
	for r.next() {
		switch r.tag {
		case 1<<3 | typeVarint:
			m.Protocol = uint32(r.num)
		case 2<<3 | typeVarint:
			m.Epoch = r.num
		case 3<<3 | typeBytes:
			m.RulesVersion = r.text(old.RulesVersion)
		case 4<<3 | typeBytes:
			if g := extend(&r, &m.Grants, MaxWants); g != nil {
				g.decode(&r)
			}
		case 5<<3 | typeVarint:
			m.Holders = uint32(r.num)
		case 6<<3 | typeVarint:
			m.Seq = r.num
		case 7<<3 | typeVarint:
			m.RulesRevision = r.num
		case 9<<3 | typeVarint:
			m.Dropped = r.num != 0
		case 10<<3 | typeBytes:
			m.Reserve = decodeReply(&r, m.Reserve)
		case 11<<3 | typeVarint:
			m.SharePerMille = uint32(r.num)
		}
	}
	err := r.failure("AcquireResponse")
	if err != nil {
		*m = Response{Grants: m.Grants[:0]}
	}
	return err
}

// DecodeAnswer reads the answer to the call of this number with so many wants. The error is an
// *Error, an [OtherVersion], or why b answers something else.
func (m *Response) DecodeAnswer(b []byte, seq uint64, wants int) error {
	switch err := m.Decode(b); {
	case err != nil:
		return err
	case !Supported(m.Protocol):
		return OtherVersion(m.Protocol)
	case len(m.Grants) != wants:
		return errors.New(strconv.Itoa(len(m.Grants)) + " grants for " + strconv.Itoa(wants) + " wants")
	case m.Seq != seq || m.Epoch == 0:
		return errors.New("it answers another call")
	}
	return nil
}

func (g *Grant) decode(r *reader) {
	*g = Grant{}
	outer := r.enter()
	for r.next() {
		switch r.tag {
		case 1<<3 | typeVarint:
			g.Status = statusOf(r.num)
		case 2<<3 | typeVarint:
			g.Granted = int64(r.num)
		case 3<<3 | typeVarint:
			g.Shape, g.Lease = uint32(r.num>>32), uint32(r.num)
		case 4<<3 | typeVarint:
			g.StartsIn = lease.Millis(r.num)
		case 5<<3 | typeVarint:
			g.TTL = lease.Millis(r.num)
		case 6<<3 | typeVarint:
			g.RetryAfter = lease.Millis(min(r.num, uint64(lease.Never)))
		case 7<<3 | typeVarint:
			g.AskAfter = lease.Millis(r.num)
		case 8<<3 | typeVarint:
			g.Limit = int64(r.num)
		case 9<<3 | typeVarint:
			g.Remaining = int64(r.num)
		case 10<<3 | typeVarint:
			g.Reset = lease.Millis(min(r.num, uint64(lease.Never)))
		case 11<<3 | typeVarint:
			g.StillOwed = r.num != 0
		}
	}
	r.leave(outer)
}

func statusOf(n uint64) lease.Status {
	if n > uint64(lease.UnknownRule) {
		return 0
	}
	return lease.Status(n)
}

// Decode reads b into m, replacing all of it. On an error, an *Error, m is empty.
func (m *RulesRequest) Decode(b []byte) error {
	old := *m
	*m = RulesRequest{}
	r := newReader(b, MaxMessage)
	for r.next() {
		switch r.tag {
		case 1<<3 | typeVarint:
			m.Protocol = uint32(r.num)
		case 2<<3 | typeBytes:
			m.HaveVersion = r.text(old.HaveVersion)
		case 3<<3 | typeBytes:
			m.Pop = r.text(old.Pop)
		case 4<<3 | typeVarint:
			m.ProtocolMax = uint32(r.num)
		}
	}
	err := r.failure("RulesRequest")
	if err != nil {
		*m = RulesRequest{}
	}
	return err
}

// Decode reads b into m, replacing all of it. On an error, an *Error, m is empty.
func (m *RulesResponse) Decode(b []byte) error {
	old := *m
	*m = RulesResponse{}
	r := newReader(b, MaxRules)
	for r.next() {
		switch r.tag {
		case 1<<3 | typeVarint:
			m.Protocol = uint32(r.num)
		case 2<<3 | typeBytes:
			m.RulesVersion = r.text(old.RulesVersion)
		case 3<<3 | typeBytes:
			m.Rules = r.bytes()
		case 4<<3 | typeVarint:
			m.RulesRevision = r.num
		}
	}
	err := r.failure("RulesResponse")
	if err != nil {
		*m = RulesResponse{}
	}
	return err
}
