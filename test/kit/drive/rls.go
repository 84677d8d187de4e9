package drive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// Ask is what every call of the rate limit service asks, but for the number of
// its key.
type Ask struct {
	Domain string
	// Entry is the key of the descriptor's only entry; its value is "user-" and the
	// number in eight digits.
	Entry string
	Hits  uint32 // hits_addend; 0 leaves it out, which means 1
}

// The frames of HTTP/2 and their flags (RFC 9113, section 6).
const (
	frameHead = 9

	frameData     = 0x0
	frameHeaders  = 0x1
	frameReset    = 0x3
	frameSettings = 0x4
	framePing     = 0x6
	frameGoAway   = 0x7
	frameWindow   = 0x8

	flagEndStream  = 0x1
	flagAck        = 0x1 // of SETTINGS and PING
	flagEndHeaders = 0x4
	flagPadded     = 0x8
)

// The answers of the rate limit service, as Envoy passes them on.
const (
	rlsOK        = 200
	rlsOverLimit = 429
	rlsNone      = 500
)

// rls calls the rate limit service on one connection, a call at a time, with as
// much of HTTP/2 and gRPC as that takes: the headers of the first call teach the
// server what those of all others refer to, and its own headers
// are not read. A call that failed has no message.
type rls struct {
	hello  []byte
	first  []byte // the headers of the first call
	others []byte
	body   []byte // the DATA frame, with room for the key
	digits int    // where in body the key's digits begin
	out    []byte

	stream  uint32 // of the call on its way; 0 before the first
	message []byte // its answer so far
	answer  []byte
}

// window is how much the server may send on a connection, and on each stream:
// more than a benchmark reads, so that it is never given more.
const window = 1<<31 - 1

func newRLS(addr string, ask Ask) *rls {
	r := &rls{message: make([]byte, 0, maxReply), first: firstHeaders(addr), others: laterHeaders()}
	r.body, r.digits = callBody(ask)
	r.hello = []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	setting := binary.BigEndian.AppendUint16(nil, 0x4) // SETTINGS_INITIAL_WINDOW_SIZE
	r.hello = appendFrame(r.hello, frameSettings, 0, 0, binary.BigEndian.AppendUint32(setting, window))
	more := binary.BigEndian.AppendUint32(nil, window-65535) // each connection begins with 65535
	r.hello = appendFrame(r.hello, frameWindow, 0, 0, more)
	return r
}

// firstHeaders are the headers that Envoy sends, in HPACK (RFC 7541) without
// Huffman's code. Each but the first two enters the server's dynamic table.
func firstHeaders(addr string) []byte {
	h := []byte{0x80 | 3, 0x80 | 6} // :method POST, :scheme http
	indexed := func(nameIndex byte, value string) {
		h = append(h, 0x40|nameIndex, byte(len(value)))
		h = append(h, value...)
	}
	named := func(name, value string) {
		h = append(h, 0x40, byte(len(name)))
		h = append(h, name...)
		h = append(h, byte(len(value)))
		h = append(h, value...)
	}
	indexed(4, "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit") // :path
	indexed(1, addr)                                                           // :authority
	indexed(31, "application/grpc")                                            // content-type
	named("te", "trailers")
	named("grpc-timeout", "1S")
	indexed(58, "weir-load/1") // user-agent
	return h
}

// laterHeaders refer to those of the first call: the newest of the dynamic table
// is 62.
func laterHeaders() []byte {
	h := []byte{0x80 | 3, 0x80 | 6}
	for index := byte(67); index >= 62; index-- {
		h = append(h, 0x80|index)
	}
	return h
}

// callBody is the DATA frame of a call: a RateLimitRequest with one descriptor of
// one entry.
func callBody(ask Ask) (frame []byte, digits int) {
	entry := appendField(appendField(nil, 1, []byte(ask.Entry)), 2, []byte("user-00000000"))
	message := appendField(nil, 1, []byte(ask.Domain))
	message = appendField(message, 2, appendField(nil, 1, entry))
	digits = frameHead + 5 + len(message) - keyDigits
	if ask.Hits > 0 {
		message = binary.AppendUvarint(append(message, 3<<3), uint64(ask.Hits))
	}
	prefix := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))) // not compressed
	return appendFrame(nil, frameData, flagEndStream, 0, append(prefix, message...)), digits
}

// appendField appends a field of protobuf's wire type 2.
func appendField(b []byte, number byte, value []byte) []byte {
	b = binary.AppendUvarint(append(b, number<<3|2), uint64(len(value)))
	return append(b, value...)
}

func appendFrame(b []byte, kind, flags byte, stream uint32, payload []byte) []byte {
	n := len(payload)
	b = append(b, byte(n>>16), byte(n>>8), byte(n), kind, flags)
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

func (r *rls) greeting() []byte {
	r.stream = 0
	return r.hello
}

func (r *rls) request(key uint32) []byte {
	headers := r.others
	if r.stream == 0 {
		headers = r.first
		r.stream = 1
	} else {
		r.stream += 2
	}
	r.message = r.message[:0]
	r.out = appendFrame(r.out[:0], frameHeaders, flagEndHeaders, r.stream, headers)
	setDigits(r.body[r.digits:][:keyDigits], key)
	binary.BigEndian.PutUint32(r.body[5:], r.stream)
	r.out = append(r.out, r.body...)
	return r.out
}

// take takes one frame.
func (r *rls) take(b []byte) (part, error) {
	if len(b) < frameHead {
		return part{}, nil
	}
	length := int(b[0])<<16 | int(b[1])<<8 | int(b[2])
	if length > maxReply-frameHead {
		return part{}, fmt.Errorf("a frame of %d bytes: not HTTP/2, or a reply of more than %d bytes", length, maxReply)
	}
	n := frameHead + length
	if len(b) < n {
		return part{}, nil
	}
	status, answer, err := r.frame(b[3], b[4], binary.BigEndian.Uint32(b[5:])&(1<<31-1), b[frameHead:n])
	return part{n: n, status: status, answer: answer}, err
}

// frame reads one frame. Of headers it needs no more than that they
// end the reply.
func (r *rls) frame(kind, flags byte, stream uint32, payload []byte) (status int, answer []byte, err error) {
	switch kind {
	case frameSettings:
		if flags&flagAck == 0 {
			answer = appendFrame(r.answer[:0], frameSettings, flagAck, 0, nil)
		}
	case framePing:
		if flags&flagAck == 0 {
			answer = appendFrame(r.answer[:0], framePing, flagAck, 0, payload)
		}
	case frameGoAway:
		return 0, nil, fmt.Errorf("the server ends the connection: %q", bytes.ToValidUTF8(payload, nil))
	case frameReset:
		if stream == r.stream {
			status = rlsNone
		}
	case frameData, frameHeaders:
		if stream != r.stream {
			return 0, nil, errors.New("a reply to another call")
		}
		if kind == frameData {
			if flags&flagPadded != 0 || len(r.message)+len(payload) > maxReply {
				return 0, nil, errors.New("a message that is padded or too large")
			}
			r.message = append(r.message, payload...)
		}
		if flags&flagEndStream != 0 {
			status = decision(r.message)
		}
	}
	if answer != nil {
		r.answer = answer
	}
	return status, answer, nil
}

// decision reads overall_code, the first field of a RateLimitResponse, behind
// gRPC's prefix of five bytes.
func decision(message []byte) int {
	const prefix, overallCode = 5, 1 << 3
	if len(message) < prefix+2 || message[0] != 0 || message[prefix] != overallCode {
		return rlsNone
	}
	switch message[prefix+1] {
	case 1:
		return rlsOK
	case 2:
		return rlsOverLimit
	}
	return rlsNone
}
