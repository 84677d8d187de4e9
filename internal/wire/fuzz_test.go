package wire_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// stricter reports whether err is one of the three differences that the package documents: groups and the two bounds.
func stricter(err error) bool {
	var malformed *wire.Error
	return errors.As(err, &malformed) &&
		(strings.Contains(malformed.Reason, "group") || strings.Contains(malformed.Reason, "longer than its maximum"))
}

// laxer is want without what wire leaves out of a request: it reports whether that explains why theirs was rejected.
func laxer(m any, want proto.Message, theirs error) (explains bool) {
	_, ours := m.(*wire.Request)
	if !ours {
		return false
	}
	if r, ok := want.(*quotav1.AcquireRequest); ok && len(r.TraceParent) > wire.MaxTraceParents {
		r.TraceParent = r.TraceParent[:wire.MaxTraceParents]
	}
	return theirs != nil && strings.Contains(theirs.Error(), "UTF-8")
}

// FuzzDecode compares the codecs on arbitrary bytes: they accept the same, but for
// the documented differences, and read the same.
func FuzzDecode(f *testing.F) {
	request, response := sampleRequest(3), sampleResponse(3)
	f.Add(uint8(0), request.Append(nil))
	f.Add(uint8(1), response.Append(nil))
	f.Add(uint8(2), (&asked{wire.RulesRequest{Protocol: 1, HaveVersion: "v1", Pop: "fra1"}}).Append(nil))
	f.Add(uint8(3), (&answered{wire.RulesResponse{Protocol: 1, RulesVersion: "v2", Rules: []byte("{}")}}).Append(nil))
	request.Reserve = &reserve.Statement{ID: 7, Until: 1 << 50, Used: []reserve.Span{{After: 1 << 49, Until: 1 << 50}}, No: 3, Part: 250}
	response.Reserve = &reserve.Reply{At: 1 << 50, Share: reserve.Share{No: 3, Part: 250, Since: 1 << 50}, Until: 1 << 50, Used: []reserve.Span{{Until: 1 << 50}}}
	response.SharePerMille, response.Secret = 250, 1<<63
	f.Add(uint8(0), request.Append(nil))
	f.Add(uint8(1), response.Append(nil))
	response.WatchMs = 60_000
	f.Add(uint8(1), response.Append(nil))
	f.Add(uint8(4), (&watch{wire.ReportResponse{Protocol: 1, WatchMs: 5000, Tap: &wire.Tap{Rule: "login", Key: []byte("ann"), Outcome: wire.OutcomeDenied, PerSecond: 10}}}).Append(nil))
	f.Add(uint8(4), []byte{0x1a, 2, 0x18, 9})                   // an outcome that is unknown
	f.Add(uint8(4), []byte{0x1a, 2, 0x0a, 0, 0x1a, 2, 0x20, 1}) // a tap in two halves
	f.Add(uint8(0), []byte{0x7a, 2, 0x08, 1, 0x7a, 2, 0x10, 1}) // a statement in two halves
	f.Add(uint8(0), []byte{0x4a, 1, 0xff})                      // a trace parent that is not UTF-8
	f.Add(uint8(0), []byte{0xa3, 0x06, 0x08, 1, 0xa4, 0x06})    // a group
	f.Add(uint8(0), []byte{0x88, 0x00, 1})                      // a tag longer than it need be
	f.Add(uint8(1), []byte{0x22, 4, 0x08, 0x84, 0x80, 0})       // a status of three bytes
	f.Add(uint8(0), []byte{0x3a, 4, 0x60, 2, 0x68, 3})          // true as 2 and as 3
	f.Add(uint8(0), []byte{0x08, 0xff, 0xff, 0xff, 0xff, 0x7f}) // a uint32 of 35 bits
	f.Fuzz(func(t *testing.T, kind uint8, b []byte) {
		p := pairs[int(kind)%len(pairs)]
		m, want := p.wire(), p.generated()
		ours := m.Decode(b)
		theirs := proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(b, want)
		if stricter(ours) || laxer(m, want, theirs) {
			return
		}
		if (ours == nil) != (theirs == nil) {
			t.Fatalf("%s: wire answered %v, the generated code %v", p.name, ours, theirs)
		}
		if ours != nil {
			return
		}
		if got := generated(m); !proto.Equal(got, plain(want)) {
			t.Fatalf("%s: wire read\n%v\nthe generated code\n%v", p.name, got, want)
		}
		again := p.generated()
		if err := proto.Unmarshal(m.Append(nil), again); err != nil || !proto.Equal(again, want) {
			t.Fatalf("%s: what wire wrote again was read as\n%v (%v)\nof\n%v", p.name, again, err, want)
		}
	})
}

// sampleRequest is what a busy PoP sends: n top-ups that give a little back.
func sampleRequest(n int) *wire.Request {
	m := &wire.Request{
		Protocol: wire.Protocol, Holder: []byte("0123456789abcdef"), Seq: 70_000, Ack: 69_999,
		RulesVersion: "9f86d081884c7d65", Pop: "fra1",
		TraceParent: []string{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
	}
	for i := range n {
		m.Wants = append(m.Wants, wire.Want{Rule: "per-user", Variant: 1, Key: fmt.Appendf(nil, "203.0.113.%d", i), Shape: 0xfeedface, Want: lease.Want{Waiting: 3, Need: 1, Want: 500, Unused: 20, Lease: 0x12345678, Denied: 2, Fresh: true}})
	}
	return m
}

func sampleResponse(n int) *wire.Response {
	m := &wire.Response{Protocol: wire.Protocol, RulesVersion: "9f86d081884c7d65", Holders: 12, Seq: 70_000}
	for range n {
		m.Grants = append(m.Grants, wire.Grant{Shape: 0xfeedface, Grant: lease.Grant{Status: lease.OK, Granted: 500, Lease: 0x12345678, TTL: 10_000, Limit: 1000, Remaining: 400, Reset: 31_000}})
	}
	return m
}

// TestSteadyStateDoesNotAllocate decodes and encodes the same shape of message over and over, as the filter does.
func TestSteadyStateDoesNotAllocate(t *testing.T) {
	request, response := sampleRequest(16), sampleResponse(16)
	encoded, reply := request.Append(nil), response.Append(nil)
	dst := make([]byte, 0, len(encoded))
	allocates := map[string]func(){
		"Request.Append":  func() { dst = request.Append(dst[:0]) },
		"Response.Append": func() { dst = response.Append(dst[:0]) },
		"Request.Decode":  func() { fatal.If(t, request.Decode(encoded)) },
		"Response.Decode": func() { fatal.If(t, response.Decode(reply)) },
	}
	for name, f := range allocates {
		if n := testing.AllocsPerRun(100, f); n != 0 {
			t.Errorf("%s allocates %v times", name, n)
		}
	}
}
