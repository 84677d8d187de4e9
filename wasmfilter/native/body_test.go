//go:build cgo

package main

import (
	"strings"
	"testing"
)

// The last number counts that the body of a response has, in whatever pieces it comes.
func TestBody(t *testing.T) {
	long := strings.Repeat("x", mostKept)
	for text, want := range map[string]string{
		`{"usage":{"total_tokens":12}}`:                    "12",
		`{"usage":{"total_tokens":1.5}}`:                   "1.5",
		`{"usage":{"total_tokens":"12"}}`:                  "",
		`{"usage":{"total_tokens":12}`:                     "",
		`{"total_tokens":12}`:                              "",
		`{"a":"` + long + `","usage":{"total_tokens":12}}`: "",
		"": "",
		"data: {\"usage\":{\"total_tokens\":3}}\n\ndata: {\"usage\":{\"total_tokens\":12}}\r\n\ndata: {\"usage\":null}\n\ndata: [DONE]\n\n": "12",
		"data:{\"usage\":{\"total_tokens\":12}}":                                                                   "12",
		"event: x\ndata: {\"usage\":{\"total_tokens\":12}}\n\ndata: " + long + "\n\ndata: {}\n\n":                  "12",
		"data: {\"a\":\"" + long + "\",\"usage\":{\"total_tokens\":3}}\ndata: {\"usage\":{\"total_tokens\":12}}\n": "12",
		"data: {\"a\":\"" + long + "\",\"usage\":{\"total_tokens\":3}}\n":                                          "",
		"data: " + strings.Repeat("[", mostKept-10) + "total_tokens\n":                                             "",
	} {
		for _, size := range []int{1, 7, 1 << 20} {
			b := body{paths: []string{"usage.total_tokens"}, found: map[string]string{}, events: !strings.HasPrefix(text, "{")}
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				b.take([]byte(rest[:n]))
				if rest = rest[n:]; len(b.kept) > mostKept {
					t.Fatal(len(b.kept), "bytes are kept")
				}
			}
			if b.end(); b.found["usage.total_tokens"] != want {
				t.Errorf("%.60q in pieces of %d: %q, want %q", text, size, b.found["usage.total_tokens"], want)
			}
		}
	}
}
