package replay

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

const formatRules = `
rules:
  - { name: login, match: { path: /login }, key: [client_ip], limit: 2/1m }
  - { name: per-key, key: [{ header: x-api-key }], limit: 2/1m }
  - { name: bots, key: [{ header: user-agent }], limit: 2/1m }
  - { name: uploads, key: [], limit: 2, algorithm: concurrency }
`

// Each format decides the rules whose inputs it has; of others the report and the suggestion say what is missing.
func TestFormats(t *testing.T) {
	const only = " has only method, path, "
	for _, c := range []struct {
		line  string // of the n-th second after noon
		notes map[string]string
	}{
		{
			`192.0.2.1 - - [26/Nov/2026:12:00:%02[1]d +0000] "GET /login HTTP/1.1" 200 5 "-" "curl"`,
			map[string]string{
				"per-key": "needs header x-api-key, which the log lacks (lines: 3); the combined format" + only + "client_ip, and the headers referer and user-agent",
				"uploads": "needs duration, which the log lacks (lines: 3); the combined format" + only,
			},
		},
		{
			`[2026-11-26T12:00:%02[1]d.000Z] "GET /login HTTP/2" 200 - 0 5 7 - "192.0.2.1" "curl" "id" "a.example" "-"`,
			map[string]string{
				"login":   "needs client_ip, which the log lacks (lines: 3); Envoy's default format" + only + "host, duration, and the headers x-forwarded-for,",
				"per-key": "needs header x-api-key, which the log lacks (lines: 3); Envoy's default format" + only,
			},
		},
		{
			`{"time":"2026-11-26T12:00:%02[1]d.000Z","method":"GET","path":"/login","client":"192.0.2.1","ms":7,"headers":{"user-agent":"curl"}}`,
			map[string]string{"per-key": "needs header x-api-key, which the log lacks (lines: 3); add it to the access log, see docs/access-log.md"},
		},
	} {
		var text strings.Builder
		for n := range 3 {
			fmt.Fprintf(&text, c.line+"\n", n)
		}
		with := Config{Rules: rules(t, formatRules)}
		r := run(t, text.String(), with)
		if r.Requests != 3 || r.From != noon || r.Until != noon.Add(2*time.Second) {
			t.Errorf("%s: %+v", c.line, r)
		}
		suggested, err := Suggest(strings.NewReader(text.String()), with, Aim{Share: 1, Least: 1})
		if err != nil {
			t.Fatal(err)
		}
		for i, of := range r.Rules {
			want, denied := c.notes[of.Rule], int64(1)
			if want != "" || of.Rule == "uploads" {
				denied = 0
			}
			if of.Rule == "bots" && r.Rules[0].Denied == 1 {
				denied = 0 // login rejects the third request first
			}
			if (of.Note == "") != (want == "") || !strings.HasPrefix(of.Note, want) || of.Denied != denied || suggested[i].Lacks != of.Note {
				t.Errorf("%s\n%+v\nwant %d denied, %s\n%+v", c.line, of, denied, want, suggested[i])
			}
		}
	}
}
