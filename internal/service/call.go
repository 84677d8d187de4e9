package service

import (
	"bytes"
	"io"

	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/internal/room"
	"github.com/weirlimit/weir/internal/wire"
)

// call is a call in flight, and its body. It is charged for its stream, and for the body as that arrives: what its
// header states may never come.
type call struct {
	io.ReadCloser
	origin
	name    sourceName
	in      *room.InFlight[sourceName]
	json    bool
	read    int64 // bytes of the body
	charged int64
	refused bool // something was
}

// callKey is that of a *call in its context.
type callKey struct{}

// streamBytes is what a call takes without its body.
const streamBytes = 16 << 10

// bodyBytes is what a body takes with what it is decoded into: at most 16 times as much and 1024 wants. JSON is
// decoded by the protobuf runtime, which has no such bound: three bytes can become a want.
func bodyBytes(read int64, json bool) int64 {
	const wants, ofJSON = 640 << 10, 64
	read = min(read, wire.MaxMessage+1)
	if json {
		return ofJSON * read
	}
	return read + min(16*read, wants)
}

// Read reads the body, and is an error when there is no room for more.
func (c *call) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	before := bodyBytes(c.read, c.json)
	c.read += int64(n)
	if more := bodyBytes(c.read, c.json) - before; more > 0 && !c.take(more) {
		return 0, coded(errTooManyCalls)
	}
	return n, err
}

// take takes bytes until the call ends; false: there is no room.
func (c *call) take(bytes int64) bool {
	if !c.in.Take(c.name, bytes) {
		c.refused = true
		return false
	}
	c.charged += bytes
	return true
}

// end gives all back.
func (c *call) end() {
	c.in.Give(c.name, c.charged)
	*c = call{}
}

// codec is protobuf for connect-go. It leaves a call of Acquire encoded: the one codec decodes it, and no more wants
// than there may be.
type codec struct{}

func (codec) Name() string                  { return "proto" }
func (codec) Marshal(m any) ([]byte, error) { return proto.Marshal(m.(proto.Message)) }

func (codec) Unmarshal(data []byte, m any) error {
	if q, ok := m.(*quotapb.AcquireRequest); ok {
		q.ProtoReflect().SetUnknown(bytes.Clone(data)) // the runtime encodes it as it is
		return nil
	}
	return proto.Unmarshal(data, m.(proto.Message))
}
