package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/membudget"
	"github.com/weirlimit/weir/internal/wire"
)

// call is a call in flight, and its body. It is charged for its stream, and for the body as that arrives: what its
// header states may never come.
type call struct {
	io.ReadCloser
	origin
	name     sourceName
	in       *membudget.InFlight[sourceName]
	json     bool
	read     int64 // bytes of the body
	charged  int64
	rejected bool // something was
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
		c.rejected = true
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

// codec is protobuf for connect-go. It leaves calls of Acquire encoded: the one codec decodes them, and no more of each
// than there may be.
type codec struct{}

func (codec) Name() string                  { return "proto" }
func (codec) Marshal(m any) ([]byte, error) { return proto.Marshal(m.(proto.Message)) }

func (codec) Unmarshal(data []byte, m any) error {
	switch m := m.(type) {
	case *quotav1.AcquireRequest:
		m.ProtoReflect().SetUnknown(bytes.Clone(data)) // the runtime encodes it as it is
		return nil
	case *quotav1.ReportRequest:
		if len(data) > wire.MaxReport || fields(data) > 2*wire.MaxListed {
			return fmt.Errorf("report: more than %d bytes, or %d fields", wire.MaxReport, 2*wire.MaxListed)
		}
	}
	return proto.Unmarshal(data, m.(proto.Message))
}

// fields is how many fields a message has: of two bytes each can become a hundred times as much memory.
func fields(encoded []byte) (n int) {
	for len(encoded) > 0 {
		_, _, size := protowire.ConsumeField(encoded)
		if size < 0 {
			break // it cannot be decoded
		}
		encoded, n = encoded[size:], n+1
	}
	return n
}

// A tenth of a caller's time, within these bounds, is kept for the way of the answer. What
// the store has not decided by then is Unavailable, and the caller gets the rest in time:
// one counter that hangs does not make the call hang.
const (
	returnShare = 10
	minReturn   = 2 * time.Millisecond
	maxReturn   = 20 * time.Millisecond
)

// timeToDecide is the store's part of a caller's patience, at least half of it.
func timeToDecide(patience time.Duration) time.Duration {
	kept := min(max(patience/returnShare, minReturn), maxReturn)
	return patience - min(kept, patience/2)
}

// inTime gives the store its time to decide, from now.
func inTime(ctx context.Context, patience time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, timeToDecide(patience))
}

// patience is how long a caller still waits whose deadline is in ctx.
func patience(ctx context.Context) time.Duration {
	if ends, ok := ctx.Deadline(); ok {
		return max(time.Until(ends), 0)
	}
	return engine.DefaultPatience
}

// returnAbandoned gives back what was granted to a caller that has hung up: nobody will
// read the answer. Slots of holders are stated anew by their next call.
func (s *Service) returnAbandoned(ctx context.Context, x *exchange) {
	if !errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	var back []engine.Ask
	for i := range x.asks {
		a, g := &x.asks[i], &x.grants[i]
		if g.Status == lease.OK && g.Granted > 0 && !a.Policy.Limit.Concurrent() {
			back = append(back, a.GiveBack(g))
		}
	}
	if len(back) > 0 {
		s.metrics.abandoned.Inc()
		engine.SendBack(ctx, s.config.Store, back)
	}
}
