package wire_test

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/fatal"
)

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

// TestSteadyStateDoesNotAllocate decodes and encodes the same shape of message
// over and over, as the filter does.
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
