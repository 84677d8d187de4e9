package wire_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// repeated is field number as an empty value, n times.
func repeated(number protowire.Number, n int) []byte {
	return bytes.Repeat(protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), nil), n)
}

func TestRejects(t *testing.T) {
	for _, c := range []struct {
		name   string
		input  []byte
		offset int
		reason string
		alone  bool // the generated code accepts it: a bound or a rule of ours
	}{
		{"tag cut short", []byte{0x80}, 0, "cut short", false},
		{"tag without value", []byte{0x08}, 0, "cut short", false},
		{"varint cut short", []byte{0x18, 0xff, 0xff}, 0, "cut short", false},
		{"length beyond the end", []byte{0x08, 1, 0x12, 5, 'a'}, 2, "cut short", false},
		{"length of 2^64-1", append([]byte{0x12}, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01), 0, "cut short", false},
		{"fixed32 cut short", []byte{0x1d, 1, 2, 3}, 0, "cut short", false},
		{"fixed64 cut short", []byte{0x19, 1, 2, 3, 4, 5, 6, 7}, 0, "cut short", false},
		{"varint of 65 bits", []byte{0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02}, 0, "64 bits", false},
		{"varint of 11 bytes", []byte{0x18, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x00}, 0, "64 bits", false},
		{"field number 0", []byte{0x00, 0x00}, 0, "field number", false},
		{"field number 2^29", []byte{0x80, 0x80, 0x80, 0x80, 0x10, 0x00}, 0, "field number", false},
		{"wire type 6", []byte{0x08, 1, 0x0e}, 2, "wire type", false},
		{"wire type 7", []byte{0x0f}, 0, "wire type", false},
		{"end of a group that never began", []byte{0x0c}, 0, "group", false},
		{"unknown group", []byte{0xa3, 0x06, 0xa4, 0x06}, 0, "group", true},
		{"string that is not UTF-8", []byte{0x08, 1, 0x32, 2, 0xc3, 0x28}, 2, "UTF-8", false},
		{"want longer than the message", []byte{0x3a, 4, 0x28, 1}, 0, "cut short", false},
		{"field of a want longer than the want", []byte{0x3a, 3, 0x1a, 9, 'k', 0, 0, 0, 0, 0, 0, 0, 0}, 2, "cut short", false},
		{"rule of the second want not UTF-8", []byte{0x3a, 0, 0x3a, 5, 0x28, 1, 0x0a, 1, 0xff}, 6, "UTF-8", false},
		{"too many wants", repeated(7, wire.MaxWants+1), 2 * wire.MaxWants, "list is longer", true},
		{"too many spans", protowire.AppendBytes([]byte{15<<3 | 2}, repeated(3, wire.MaxSpans+1)), 3 + 2*wire.MaxSpans, "list is longer", true},
		{"too long", protowire.AppendBytes([]byte{0x12}, make([]byte, wire.MaxMessage)), wire.MaxMessage, "message is longer", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := new(wire.Request).Decode(c.input)
			malformed, ok := errors.AsType[*wire.Error](err)
			if !ok {
				t.Fatalf("Decode answered %v", err)
			}
			if malformed.Message != "AcquireRequest" || malformed.Offset != c.offset || !strings.Contains(malformed.Reason, c.reason) {
				t.Errorf("rejected with %q, want byte %d and %q", err, c.offset, c.reason)
			}
			theirs := proto.Unmarshal(c.input, new(quotav1.AcquireRequest))
			if (theirs == nil) != c.alone {
				t.Errorf("the generated code answered %v", theirs)
			}
		})
	}
}

// TestLeavesOut checks what a call is answered without: names that are not UTF-8 and
// decide nothing, and trace parents too many.
func TestLeavesOut(t *testing.T) {
	bad := []byte{0x42, 2, 0xc3, 0x28, 0x4a, 1, 0xff, 0x4a, 2, 'o', 'k', 0x4a, 2, 0xc3, 0x28}
	request := wire.Request{Pop: "before", TraceParent: []string{"before", "before"}}
	for range 2 {
		fatal.If(t, request.Decode(append([]byte{0x08, 1}, bad...)))
		if request.Protocol != 1 || request.Pop != "" || len(request.TraceParent) != 1 || request.TraceParent[0] != "ok" {
			t.Errorf("read %+v", request)
		}
	}
	if err := request.Decode(repeated(9, wire.MaxTraceParents+5)); err != nil || len(request.TraceParent) != wire.MaxTraceParents {
		t.Errorf("%d trace parents, %v", len(request.TraceParent), err)
	}
}

// TestAcceptsAtTheBounds is the other side of TestRejects: the most that is legal.
func TestAcceptsAtTheBounds(t *testing.T) {
	var request wire.Request
	fatal.If(t, request.Decode(append(repeated(7, wire.MaxWants), repeated(9, wire.MaxTraceParents)...)))
	if len(request.Wants) != wire.MaxWants || len(request.TraceParent) != wire.MaxTraceParents {
		t.Errorf("read %d wants and %d trace parents", len(request.Wants), len(request.TraceParent))
	}
	var response wire.Response
	fatal.If(t, response.Decode(repeated(4, wire.MaxWants)))
	if err := response.Decode(repeated(4, wire.MaxWants+1)); err == nil {
		t.Errorf("accepted %d grants", wire.MaxWants+1)
	}
	// tag and length take 1 + 4 bytes of a RulesResponse as long as it may be
	rules := answered{wire.RulesResponse{Rules: make([]byte, wire.MaxRules-5)}}
	longest := rules.Append(nil)
	if err := rules.Decode(longest); err != nil {
		t.Errorf("rejected %d bytes: %v", len(longest), err)
	}
	if err := rules.Decode(append(longest, 0x08, 0)); err == nil {
		t.Errorf("accepted %d bytes", len(longest)+2)
	}
}

// TestAliases checks what may point into the input and what may not.
func TestAliases(t *testing.T) {
	sent := wire.Request{RulesVersion: "v1", Wants: []wire.Want{{Rule: "login", Key: []byte("alice"), Want: lease.Want{Need: 1}}}}
	input := sent.Append(nil)
	var got wire.Request
	fatal.If(t, got.Decode(input))
	_ = append(got.Wants[0].Key, "overwrites"...)
	if !bytes.Equal(input, sent.Append(nil)) {
		t.Error("appending to a key wrote to the input")
	}
	for i := range input {
		input[i] = 'x'
	}
	if got.RulesVersion != "v1" || got.Wants[0].Rule != "login" {
		t.Errorf("strings changed with the input: %q, %q", got.RulesVersion, got.Wants[0].Rule)
	}
	if string(got.Wants[0].Key) != "xxxxx" {
		t.Errorf("the key was copied: %q", got.Wants[0].Key)
	}
}
