package replay

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

const unknownRules = `
rules:
  - name: internal
    mode: exempt
    match: { client_ip: [10.0.0.0/8], header: { x-internal: { present: true } } }
    exempts: [login]
  - name: login
    match: { path: /login }
    key: [client_ip]
    limit: 5/1m
  - name: user
    match: { path: { prefix: /v1/ } }
    key: [{ header: x-user-id }]
    limit: 2/1m
    overrides: [{ when: { claim: { plan: gold } }, limit: 100/1m }]
  - name: region
    match: { region: eu }
    key: []
    limit: 1/1m
    mode: shadow
`

// A rule whose inputs a line lacks is unknown for a request of its paths and methods; the others decide it.
func TestUnknown(t *testing.T) {
	var l log
	for range 8 {
		l.add(0, "192.0.2.1", "/login", "") // the exempt rule is for other clients
		l.add(0, "10.0.0.1", "/login", "")  // it may be for this one, as far as the log goes
		l.add(0, "10.0.0.2", "/login", `,"headers":{"x-internal":"yes"}`)
		l.add(0, "10.0.0.3", "/login", `,"headers":{"x-internal":null}`)
		l.add(0, "192.0.2.1", "/v1/a", "")
		l.add(0, "192.0.2.1", "/v1/a", `,"headers":{"x-user-id":"ann"}`)
		l.add(0, "192.0.2.1", "/v1/a", `,"headers":{"x-user-id":"ann"},"claims":{"plan":null}`)
		l.add(0, "192.0.2.1", "/v1/a", `,"headers":{"x-user-id":"bob"},"claims":{"plan":"gold"}`)
		l.add(0, "192.0.2.1", "/v1/a", `,"headers":{"x-user-id":null},"claims":{"plan":null}`)
	}
	const add = "; add it to the access log, see docs/access-log.md"
	want := []Rule{
		{Rule: "internal", Mode: "exempt", Matched: 8, Unknown: 56, Missing: []string{"header x-internal"}, Note: "needs header x-internal, which the log lacks (lines: 56)" + add},
		{Rule: "login", Mode: "enforce", Matched: 24, Admitted: 15, Denied: 9, Keys: 3, KeysDenied: 3},
		{
			Rule: "user", Mode: "enforce", Matched: 16, Admitted: 10, Denied: 6, Keys: 2, KeysDenied: 1, NoKey: 8, Unknown: 16,
			Missing: []string{"claim plan", "header x-user-id"}, Note: "needs claim plan, header x-user-id, which the log lacks (lines: 16)" + add,
		},
		{Rule: "region", Mode: "shadow", Unknown: 72, Missing: []string{"region"}, Note: "needs region, which the log lacks (lines: 72); state it with --region"},
	}
	r := run(t, l.String(), Config{Rules: rules(t, unknownRules)})
	if !reflect.DeepEqual(r.Rules, want) || r.Admitted != 57 {
		t.Errorf("%d admitted", r.Admitted)
		for i := range want {
			t.Errorf("\n got %+v\nwant %+v", r.Rules[i], want[i])
		}
	}
	for region, matched := range map[string]int64{"eu": 72, "us": 0} {
		r := run(t, l.String(), Config{Rules: rules(t, unknownRules), Region: region})
		if of := r.Rules[3]; of.Matched != matched || of.Unknown != 0 {
			t.Errorf("in %s: %+v", region, of)
		}
	}
}

// Lines that cannot be used are counted, and the first five named; a log without any that can is an error.
func TestBroken(t *testing.T) {
	var l log
	l.add(0, "192.0.2.1", "/login", "")
	good := l.String()
	bad := []string{
		"", "no JSON\n", `{"client":"192.0.2.1"}` + "\n", `{"time":"yesterday"}` + "\n", `{"time":"1969-01-01T00:00:00Z"}` + "\n",
		`{"time":"` + strings.Repeat("x", 1<<20) + `"}` + "\n", "[]\n", strings.TrimSuffix(good, "}\n"),
	}
	r := run(t, strings.Join(bad[:4], "")+good+"\n\n"+good+strings.Join(bad[4:], ""), Config{Rules: rules(t, loginRules)})
	want := []string{"line 1: is in no format that Weir reads", "line 2: time: is missing", `line 3: time: "yesterday"`, "line 8: time: is missing, or before 1970", "line 9: has more than"}
	if r.Requests != 2 || r.Broken.Lines != 7 || len(r.Broken.First) != len(want) {
		t.Fatalf("%+v", r)
	}
	for i, text := range want {
		if !strings.HasPrefix(r.Broken.First[i], text) {
			t.Errorf("%s, want %s", r.Broken.First[i], text)
		}
	}
	for log, want := range map[string]string{"": "the log is empty", "\n": "the log is empty", bad[1] + bad[2]: "none of 2 lines can be used: line 1: is in no format"} {
		if _, err := Run(strings.NewReader(log), Config{Rules: rules(t, loginRules)}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", log, err, want)
		}
	}
}

// A log may be compressed; one that is cut off is an error.
func TestGzip(t *testing.T) {
	var l log
	for n := range 1000 {
		l.add(time.Duration(n)*time.Second, fmt.Sprint("192.0.2.", n%5), "/login", "")
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(l.Bytes())
	_ = w.Close()
	c := Config{Rules: rules(t, loginRules)}
	if got, want := run(t, packed.String(), c), run(t, l.String(), c); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if _, err := Run(bytes.NewReader(packed.Bytes()[:packed.Len()/2]), c); err == nil || !strings.Contains(err.Error(), "unexpected EOF") {
		t.Error(err)
	}
}
