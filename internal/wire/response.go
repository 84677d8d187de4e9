package wire

import (
	"errors"
	"strconv"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
)

// Response is an AcquireResponse. Whoever asked checks that it has as many grants
// as the request had wants.
type Response struct {
	Protocol      uint32
	RulesVersion  string
	Grants        []Grant
	Holders       uint32
	Seq           uint64
	RulesRevision uint64
	Dropped       bool
	// Reserve lacks the ID: whoever called knows which one it stated.
	Reserve       *reserve.Reply
	SharePerMille uint32
	Secret        uint64
	WatchMs       uint32
}

// Append appends the encoded message to dst and returns the longer slice.
func (m *Response) Append(dst []byte) []byte {
	dst = appendUint(dst, 1, uint64(m.Protocol))
	dst = appendBytes(dst, 3, m.RulesVersion)
	for i := range m.Grants {
		dst = append(dst, 4<<3|typeBytes, 0)
		start := len(dst)
		dst = closeNested(m.Grants[i].append(dst), start)
	}
	dst = appendUint(dst, 5, uint64(m.Holders))
	dst = appendUint(dst, 6, m.Seq)
	dst = appendUint(dst, 7, m.RulesRevision)
	dst = appendBool(dst, 9, m.Dropped)
	dst = appendReply(dst, m.Reserve)
	dst = appendUint(dst, 11, uint64(m.SharePerMille))
	dst = appendUint(dst, 12, m.Secret)
	return appendUint(dst, 13, uint64(m.WatchMs))
}

// Decode reads b into m, replacing all of it. On an error m has no meaning.
func (m *Response) Decode(b []byte) error {
	old := *m
	*m = Response{Grants: old.Grants[:0]}
	r := newReader(b, MaxMessage)
	for r.next() {
		switch r.tag {
		case 1<<3 | typeVarint:
			m.Protocol = uint32(r.num)
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
		case 12<<3 | typeVarint:
			m.Secret = r.num
		case 13<<3 | typeVarint:
			m.WatchMs = uint32(r.num)
		}
	}
	return r.failure("AcquireResponse")
}

// DecodeAnswer reads the answer to the call of this number with so many wants. The error is
// one of Decode, an [OtherVersion], or why b answers something else.
func (m *Response) DecodeAnswer(b []byte, seq uint64, wants int) error {
	switch err := m.Decode(b); {
	case err != nil:
		return err
	case !Supported(m.Protocol):
		return OtherVersion(m.Protocol)
	case len(m.Grants) != wants:
		return errors.New(strconv.Itoa(len(m.Grants)) + " grants for " + strconv.Itoa(wants) + " wants")
	case m.Seq != seq:
		return errors.New("it answers another call")
	}
	return nil
}

// Grant is a Grant. Shape is as in [Want]. Name is that of the override by key.
type Grant struct {
	lease.Grant
	Shape uint32
	Name  []byte
}

func (g *Grant) append(dst []byte) []byte {
	dst = appendUint(dst, 1, uint64(g.Status))
	dst = appendUint(dst, 2, uint64(g.Granted))
	dst = appendUint(dst, 3, leaseNumber(g.Shape, g.Lease))
	dst = appendUint(dst, 4, uint64(g.StartsIn))
	dst = appendUint(dst, 5, uint64(g.TTL))
	dst = appendUint(dst, 6, Ms(g.RetryAfter))
	dst = appendUint(dst, 7, uint64(g.AskAfter))
	dst = appendUint(dst, 8, uint64(g.Limit))
	dst = appendUint(dst, 9, uint64(g.Remaining))
	dst = appendUint(dst, 10, Ms(g.Reset))
	dst = appendBool(dst, 11, g.StillOwed)
	dst = appendBytes(dst, 12, g.Name)
	return appendUint(dst, 13, uint64(g.Block))
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
		case 12<<3 | typeBytes:
			g.Name = r.bytes()
		case 13<<3 | typeVarint:
			if r.num <= uint64(limit.BlockBegan) {
				g.Block = limit.Block(r.num)
			}
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

// neverMs in a field of milliseconds means that the time never comes.
const neverMs = 1<<53 - 1

// Ms is a time in a field in which it may never come.
func Ms(d lease.Millis) uint64 {
	if d >= lease.Never {
		return neverMs
	}
	return uint64(d)
}

const (
	// LongestDuration is the longest time that a holder takes from a grant; no limit
	// has a longer period.
	LongestDuration lease.Millis = 400 * 24 * 3600 * 1000
	// longestAskAfter is the longest time for which a denial keeps a holder from asking.
	longestAskAfter lease.Millis = 1000
)

// Bounded is a grant as a holder takes it, whatever its granter sent: no status counts as
// unavailable. period is that of the limit: no lease begins later than with the next window.
func (g *Grant) Bounded(period lease.Millis) lease.Grant {
	b := g.Grant
	b.Granted, b.Limit, b.Remaining = units(g.Granted), units(g.Limit), units(g.Remaining)
	b.StartsIn, b.TTL = min(duration(g.StartsIn), period), duration(g.TTL)
	b.RetryAfter, b.Reset = duration(g.RetryAfter), duration(g.Reset)
	b.AskAfter = min(duration(g.AskAfter), longestAskAfter)
	if b.Status == 0 {
		b.Status = lease.Unavailable
	}
	return b
}

// duration and units take what is negative for the large number that it was.
func duration(d lease.Millis) lease.Millis {
	return lease.Millis(min(uint64(d), uint64(LongestDuration)))
}

func units(n int64) int64 { return int64(min(uint64(n), MaxUnits)) }
