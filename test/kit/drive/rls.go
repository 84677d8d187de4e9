package drive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// The answers of the rate limit service, as Envoy passes them on.
const (
	rlsOK        = 200
	rlsOverLimit = 429
	rlsNone      = 500
)

// rls calls the rate limit service on one connection, a call at a time, with the frames and
// headers of HTTP/2 and as much of gRPC as that takes. The headers of replies are not read: a call
// that failed has no message.
type rls struct {
	addr   string
	body   []byte // of a call, with room for the key
	digits int    // where in body the key's digits begin

	in      bytes.Reader // a frame
	out     bytes.Buffer // what is to be sent
	framer  *http2.Framer
	headers bytes.Buffer
	encoder *hpack.Encoder
	stream  uint32 // of the call on its way
	message []byte // its answer so far
}

// window is how much the server may send on a connection, and on each stream:
// more than a benchmark reads, so that it is never given more.
const window = 1<<31 - 1

// frameHead is the length of the head of a frame, which begins with the length of the rest.
const frameHead = 9

func newRLS(addr, domain, entry string) *rls {
	r := &rls{addr: addr}
	r.body, r.digits = callBody(domain, entry)
	return r
}

// callBody is a call: a RateLimitRequest with one descriptor of one entry.
func callBody(domain, key string) (body []byte, digits int) {
	entry := appendField(appendField(nil, 1, []byte(key)), 2, []byte("user-00000000"))
	message := appendField(nil, 1, []byte(domain))
	message = appendField(message, 2, appendField(nil, 1, entry))
	prefix := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))) // not compressed
	body = append(prefix, message...)
	return body, len(body) - keyDigits
}

// appendField appends a field of protobuf's wire type 2.
func appendField(b []byte, number byte, value []byte) []byte {
	b = binary.AppendUvarint(append(b, number<<3|2), uint64(len(value)))
	return append(b, value...)
}

func (r *rls) greeting() []byte {
	r.stream = 0
	r.encoder = hpack.NewEncoder(&r.headers)
	r.out.Reset()
	r.out.WriteString(http2.ClientPreface)
	r.framer = http2.NewFramer(&r.out, &r.in)
	_ = r.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}) // as all below, into a buffer
	_ = r.framer.WriteWindowUpdate(0, window-65535)                                            // each connection begins with 65535
	return r.out.Bytes()
}

func (r *rls) request(key uint32) []byte {
	if r.stream += 2; r.stream == 2 {
		r.stream = 1
	}
	r.message = r.message[:0]
	r.out.Reset()
	r.headers.Reset()
	for _, h := range [...]hpack.HeaderField{ // those that Envoy sends
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"},
		{Name: ":path", Value: "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"},
		{Name: ":authority", Value: r.addr}, {Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"}, {Name: "grpc-timeout", Value: "1S"}, {Name: "user-agent", Value: "weir-load/1"},
	} {
		_ = r.encoder.WriteField(h)
	}
	_ = r.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: r.stream, BlockFragment: r.headers.Bytes(), EndHeaders: true})
	setDigits(r.body[r.digits:], key)
	_ = r.framer.WriteData(r.stream, true, r.body)
	return r.out.Bytes()
}

func (r *rls) take(b []byte) (part, error) {
	if len(b) < frameHead {
		return part{}, nil
	}
	n := frameHead + int(b[0])<<16 + int(b[1])<<8 + int(b[2])
	if n > maxReply {
		return part{}, fmt.Errorf("a frame of %d bytes: not HTTP/2, or a reply of more than %d bytes", n, maxReply)
	}
	if len(b) < n {
		return part{}, nil
	}
	r.in.Reset(b[:n])
	frame, err := r.framer.ReadFrame()
	if err != nil {
		return part{}, err
	}
	r.out.Reset()
	status, err := r.frame(frame)
	return part{n: n, status: status, answer: r.out.Bytes()}, err
}

// frame reads one frame, and writes what is to be answered. Of headers it needs no more than that
// they end the reply.
func (r *rls) frame(frame http2.Frame) (status int, err error) {
	switch f := frame.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			err = r.framer.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			err = r.framer.WritePing(true, f.Data)
		}
	case *http2.GoAwayFrame:
		err = fmt.Errorf("the server ends the connection: %q", f.DebugData())
	case *http2.RSTStreamFrame:
		if f.StreamID == r.stream {
			status = rlsNone
		}
	case *http2.DataFrame:
		if len(r.message)+len(f.Data()) > maxReply {
			return 0, errors.New("a message that is too large")
		}
		r.message = append(r.message, f.Data()...)
		return r.ends(f.StreamID, f.StreamEnded())
	case *http2.HeadersFrame:
		return r.ends(f.StreamID, f.StreamEnded())
	}
	return status, err
}

// ends is the decision if a frame of a reply is its last.
func (r *rls) ends(stream uint32, last bool) (status int, err error) {
	switch {
	case stream != r.stream:
		return 0, errors.New("a reply to another call")
	case last:
		return decision(r.message), nil
	}
	return 0, nil
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
