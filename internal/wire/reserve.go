package wire

import (
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
)

// appendStatement appends the field of a Request; nil: it is absent.
func appendStatement(dst []byte, s *reserve.Statement) []byte {
	if s == nil {
		return dst
	}
	dst = append(dst, 15<<3|typeBytes, 0)
	start := len(dst)
	dst = appendUint(dst, 1, s.ID)
	dst = appendUint(dst, 2, uint64(s.Until))
	dst = appendSpans(dst, 3, s.Used)
	dst = appendUint(dst, 4, s.No)
	dst = appendUint(dst, 5, uint64(uint32(s.Part)))
	return closeNested(dst, start)
}

// decodeStatement reads the field into s; nil: it is the first one of the message. Several
// are one, as protobuf requires.
func decodeStatement(r *reader, s *reserve.Statement) *reserve.Statement {
	if s == nil {
		s = new(reserve.Statement)
	}
	outer := r.enter()
	for r.next() {
		switch r.tag {
		case 1<<3 | typeVarint:
			s.ID = r.num
		case 2<<3 | typeVarint:
			s.Until = limit.Micros(r.num)
		case 3<<3 | typeBytes:
			decodeSpan(r, &s.Used)
		case 4<<3 | typeVarint:
			s.No = r.num
		case 5<<3 | typeVarint:
			s.Part = reserve.PerMille(uint32(r.num))
		}
	}
	r.leave(outer)
	return s
}

// appendReply appends the field of a Response; nil: it is absent.
func appendReply(dst []byte, p *reserve.Reply) []byte {
	if p == nil {
		return dst
	}
	dst = append(dst, 10<<3|typeBytes, 0)
	start := len(dst)
	dst = appendUint(dst, 1, uint64(p.At))
	dst = appendUint(dst, 2, p.Share.No)
	dst = appendUint(dst, 3, uint64(uint32(p.Share.Part)))
	dst = appendUint(dst, 4, uint64(p.Share.Since))
	dst = appendUint(dst, 5, uint64(p.Until))
	dst = appendSpans(dst, 6, p.Used)
	return closeNested(dst, start)
}

func decodeReply(r *reader, p *reserve.Reply) *reserve.Reply {
	if p == nil {
		p = new(reserve.Reply)
	}
	outer := r.enter()
	for r.next() {
		switch r.tag {
		case 1<<3 | typeVarint:
			p.At = limit.Micros(r.num)
		case 2<<3 | typeVarint:
			p.Share.No = r.num
		case 3<<3 | typeVarint:
			p.Share.Part = reserve.PerMille(uint32(r.num))
		case 4<<3 | typeVarint:
			p.Share.Since = limit.Micros(r.num)
		case 5<<3 | typeVarint:
			p.Until = limit.Micros(r.num)
		case 6<<3 | typeBytes:
			decodeSpan(r, &p.Used)
		}
	}
	r.leave(outer)
	return p
}

func appendSpans(dst []byte, number byte, spans []reserve.Span) []byte {
	for _, s := range spans {
		dst = append(dst, number<<3|typeBytes, 0)
		start := len(dst)
		dst = appendUint(dst, 1, uint64(s.After))
		dst = appendUint(dst, 2, uint64(s.Until))
		dst = closeNested(dst, start)
	}
	return dst
}

// decodeSpan reads one more element of a list.
func decodeSpan(r *reader, list *[]reserve.Span) {
	s := extend(r, list, maxSpans)
	if s == nil {
		return
	}
	*s = reserve.Span{}
	outer := r.enter()
	for r.next() {
		switch r.tag {
		case 1<<3 | typeVarint:
			s.After = limit.Micros(r.num)
		case 2<<3 | typeVarint:
			s.Until = limit.Micros(r.num)
		}
	}
	r.leave(outer)
}
