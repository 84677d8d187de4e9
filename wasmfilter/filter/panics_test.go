package filter

import (
	"strings"
	"testing"
)

const panicRules = `{"rules":[
	{"name":"deny","match":{"path":"/deny"},"key":[{"header":"x-user"}],"limit":"100/1d","algorithm":"fixed_window","consistency":"exact","on_failure":{"action":"deny","status":429}},
	{"name":"allow","match":{"path":"/allow"},"key":[{"header":"x-user"}],"limit":"100/1d","algorithm":"fixed_window","consistency":"exact","on_failure":"allow"},
	{"name":"share","match":{"path":"/share"},"key":[{"header":"x-user"}],"limit":"100/1d","algorithm":"fixed_window","scope":"pop","on_failure":"local"},
	{"name":"slot","match":{"path":"/slot"},"key":[],"limit":1,"algorithm":"concurrency","scope":"pop","on_failure":"allow"}
]}`

// After a panic before its verdict a request follows on_failure, or before_rules if it was not matched yet. The panic is
// logged and counted, and the next request is decided.
func TestPanics(t *testing.T) {
	for _, c := range []struct {
		name, path, call, callback, settings string
		status                               int
	}{
		{"headers are read", "/deny", "get_header_map_pairs", "on_request_headers", `"before_rules":"allow"`, 0},
		{"headers are read, before_rules: deny", "/allow", "get_header_map_pairs", "on_request_headers", `"before_rules":"deny"`, 503},
		{"a decision is reported", "/share", "set_property", "on_request_headers", `"span_tags":true`, 503},
		{"a decision is reported, on_failure: allow", "/slot", "set_property", "on_request_headers", `"span_tags":true`, 0},
		{"a call is made", "/deny", "http_call", "on_request_headers", `"span_tags":true`, 429},
		{"an answer is read", "/deny", "get_buffer_bytes", "on_http_call_response", `"span_tags":true`, 429},
		{"an answer is read, on_failure: allow", "/allow", "get_buffer_bytes", "on_http_call_response", `"span_tags":true`, 0},
		{"a request goes on", "/deny", "continue_stream", "on_scheduled", `"span_tags":true`, 429},
		{"a request goes on, on_failure: allow", "/allow", "set_property", "on_scheduled", `"span_tags":true`, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := startNew(t, strings.Replace(withRules(t, panicRules), "{", "{"+c.settings+",", 1), 1)
			e.crossed.panics = c.call
			x := e.send(0, ":path", c.path, "x-user", "ann")
			e.settle(nil)
			e.pass(2000) // of a call that was not made
			if x.paused && x.status == 0 {
				t.Error("the request still waits")
			}
			if x.status != c.status {
				t.Errorf("status %d, want %d", x.status, c.status)
			}
			e.complete(x)
			e.settle(nil)
			if n := e.metrics["weir.panics"]; n != 1 || !e.logged("panic in "+c.callback) {
				t.Errorf("%d panics are counted, want 1; log %q", n, e.logs)
			}
			for range 2 { // so that no slot is lost
				y := e.get(0, c.path, "x-user", "bob")
				if y.status != 0 {
					t.Errorf("the next request: status %d", y.status)
				}
			}
		})
	}
}
