package accesslog

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/ruleset/request"
)

const (
	admitted = `{"client":"127.0.0.1","details":"via_upstream","method":"GET","ms":6,"path":"/v1/orders","policy":"\"per-user\";q=1000;w=86400","request":"f2d80e46","status":200,"time":"2026-11-26T14:37:20.198Z"}`
	denied   = `{"client":"127.0.0.1","details":"weir-denied:per-user/acme","key":"acme","method":"GET","ms":0,"override":"acme","path":"/v1/orders?a=\"b\"","policy":"\"per-user\";q=1;w=86400","remaining":"0","request":"b50832a0","rule":"per-user","status":429,"time":"2026-11-26T14:37:20.227Z","host":"api.example.com:443","headers":{"X-User":"ann","x-tier":null,"x-empty":"","x-none":"-","x-number":7},"xff":"192.0.2.1, 10.0.0.1","claims":{"sub":"ann","age":42,"half":1.5,"admin":true,"list":[1],"control":"a\u0001","none":null},"metadata":{"ai:model":"large","ai:tokens":7,"ai:half":1.5,"ai:none":null},"san":null,"route":"shop","region":"eu","pop":"fra1","shadow":"all@candidate","weir":"login allowed on_failure"}`
)

// parse reads a line with l, then again from a fresh one, and compares.
func parse(t *testing.T, l *Line, line string) error {
	t.Helper()
	fresh, data := new(Line), []byte(line)
	err := l.Parse(data)
	for i := range data {
		data[i] = 'x' // the caller may use it again
	}
	if other := fresh.Parse([]byte(line)); (other == nil) != (err == nil) || !reflect.DeepEqual(l, fresh) {
		t.Errorf("%s\nis %+v, %v\nand %+v, %v after another line", line, fresh, other, l, err)
	}
	return err
}

// What a line states is known; what it states as null or - is known to be absent.
func TestLine(t *testing.T) {
	var l Line
	if err := parse(t, &l, denied); err != nil {
		t.Fatal(err)
	}
	want := Line{
		Request: request.Request{
			Method: "GET", Host: "api.example.com:443", Path: `/v1/orders?a="b"`, Client: "127.0.0.1", Route: "shop", Region: "eu",
			Headers: map[string]string{"x-user": "ann", "x-empty": "", "x-number": "7", "x-forwarded-for": "192.0.2.1, 10.0.0.1"},
			Claims:  map[string]string{"sub": "ann", "age": "42", "admin": "true"}, Metadata: map[string]string{"ai:model": "large", "ai:tokens": "7"},
		},
		Time: time.Date(2026, 11, 26, 14, 37, 20, 227e6, time.UTC), Known: request.Known{}, Format: formatJSON,
		Others: map[string]string{
			"status": "429", "details": "weir-denied:per-user/acme", "rule": "per-user", "override": "acme", "key": "acme", "remaining": "0", "shadow": "all@candidate",
			"weir": "login allowed on_failure", "policy": `"per-user";q=1;w=86400`, "request": "b50832a0", "pop": "fra1",
		},
	}
	for _, word := range []string{
		"method", "host", "path", "client_ip", "route", "san", "region", "header x-user", "header x-tier", "header x-empty", "header x-none", "header x-number",
		"header x-forwarded-for", "claim sub", "claim age", "claim half", "claim admin", "claim list", "claim control", "claim none", "metadata ai:model", "metadata ai:tokens", "metadata ai:half", "metadata ai:none", Duration,
	} {
		want.Known[word] = true
	}
	if !reflect.DeepEqual(l, want) {
		t.Errorf("%+v,\nwant %+v", l, want)
	}
	if err := parse(t, &l, admitted); err != nil || l.Duration != 6*time.Millisecond {
		t.Errorf("%+v, %v", l, err)
	}
	if known := slices.Sorted(maps.Keys(l.Known)); strings.Join(known, " ") != "client_ip duration method path" {
		t.Errorf("known are %s", known)
	}
}

// Times have any offset, numbers may be texts, and of several values the last one counts.
func TestForms(t *testing.T) {
	var l Line
	at := time.Date(2026, 11, 26, 14, 37, 20, 227e6, time.UTC)
	for _, line := range []string{
		`{"time":"2026-11-26T14:37:20.227Z"}`, `{"time":"2026-11-26T15:37:20.227+01:00"}`,
	} {
		if err := parse(t, &l, line); err != nil || !l.Time.Equal(at) {
			t.Errorf("%s: %v, %v", line, l.Time, err)
		}
	}
	if err := parse(t, &l, ` {"ms":"7","host":"h","headers":{":authority":"i","X":"1","x":null},"client":"/run/x","method":null,"what":{"a":[1]},"san":"-,a.example,b.example"}`+"\r\n"); err != nil ||
		l.Request.Host != "i" || len(l.Request.Headers) > 0 || !l.Known["header x"] || l.Duration != 7*time.Millisecond || l.Request.Client != "" || l.Request.SAN != "a.example" || !l.Known["client_ip"] || l.Known["method"] {
		t.Errorf("%+v, %v", l, err)
	}
}

const (
	apacheLine = `192.0.2.1 - ann [26/Nov/2026:15:37:20 +0100] "POST /login?a=\"b\" HTTP/1.1" 200 512 "-" "curl \x22\xc3\xa4\\"`
	envoyLine  = `[2026-11-26T14:37:20.000Z] "POST /login HTTP/2" 204 - 154 0 226 100 "192.0.2.1" "curl" "cc21d9b0" "api.example.com" "10.0.2.1:80"`
)

// The text formats: what they have is known, and nothing else.
func TestText(t *testing.T) {
	for _, c := range []struct {
		line, known, path, agent string
		format                   Format
	}{
		{apacheLine, "client_ip, header referer, header user-agent, method, path", `/login?a="b"`, `curl "ä\`, formatCombined},
		{apacheLine + ` "192.0.2.9" rt=0.1`, "client_ip, header referer, header user-agent, method, path", `/login?a="b"`, `curl "ä\`, formatCombined},
		{apacheLine[:strings.Index(apacheLine, ` "-"`)], "client_ip, method, path", `/login?a="b"`, "", formatCombined},
		{strings.Replace(apacheLine, "192.0.2.1", "host.example", 1), "header referer, header user-agent, method, path", `/login?a="b"`, `curl "ä\`, formatCombined},
		{envoyLine, "duration, header user-agent, header x-forwarded-for, header x-request-id, host, method, path", "/login", "curl", formatText},
		{ // what a client sends looks like the other format
			strings.NewReplacer(`"192.0.2.1"`, `"[t] "`, `"curl"`, `" 200 - x"`).Replace(envoyLine), "duration, header user-agent, header x-forwarded-for, header x-request-id, host, method, path", "/login", " 200 - x", formatText,
		},
		{
			`{"start_time":"2026-11-26T14:37:20Z","method":"POST","path":"/login","authority":"a","downstream_remote_address":"192.0.2.1:5","user_agent":"curl","duration":3}`,
			"client_ip, duration, header user-agent, host, method, path", "/login", "curl", formatJSON,
		},
	} {
		var l Line
		err := parse(t, &l, c.line)
		known := strings.Join(slices.Sorted(maps.Keys(l.Known)), ", ")
		if err != nil || known != c.known || l.Request.Method != "POST" || l.Request.Path != c.path || l.Request.Headers["user-agent"] != c.agent || l.Format != c.format {
			t.Errorf("%s\n%v: %s, %+v", c.line, err, known, l)
		}
		if _, there := l.Request.Headers["referer"]; there || l.Time.UTC() != time.Date(2026, 11, 26, 14, 37, 20, 0, time.UTC) {
			t.Errorf("%s\n%+v", c.line, l)
		}
	}
}

// What a line records about the response is a sentence.
func TestRecorded(t *testing.T) {
	var l Line
	for line, want := range map[string]string{
		admitted: "Recorded at 2026-11-26T14:37:20.198Z: GET /v1/orders from 127.0.0.1, status 200.",
		denied: `Recorded at 2026-11-26T14:37:20.227Z: GET /v1/orders?a="b" from 127.0.0.1, status 429, rejected by ` + "`per-user` with the override `acme`, key acme, 0 left. " +
			"Would have been rejected by `all@candidate`, in shadow mode or on trial. Decided without the region or by an exempt rule: login allowed on_failure.",
		`{"path":"/","details":"weir-shed:load","class":"bulk"}`: "Recorded: /, rejected by `load`, class bulk.",
		apacheLine: `Recorded at 2026-11-26T14:37:20Z: POST /login?a="b" from 192.0.2.1, status 200.`,
	} {
		if err := parse(t, &l, line); err != nil || l.Recorded() != want {
			t.Errorf("%s\n%v: %s", line, err, l.Recorded())
		}
	}
}

// A line that cannot be read says why.
func TestMistakes(t *testing.T) {
	var l Line
	for line, want := range map[string]string{
		"":                                       "is in no format that Weir reads: JSON as in docs/access-log.md, Envoy's default format, or the combined format of",
		`[2026-11-26T14:37:20.227Z] "GET / ..."`: "is in no format",
		strings.Replace(envoyLine, "curl", `cu"rl`, 1):     "is in no format", // the fields cannot be told apart
		strings.Replace(apacheLine, "26/Nov", "31/Feb", 1): `"31/Feb/2026:15:37:20 +0100" must be a time`,
		admitted[:99]:              "is not JSON: it ends too early",
		admitted + "\n" + admitted: "or is several lines",
		`{"a":"` + strings.Repeat("a", MaxLine) + `"}`: "has 262152 bytes; a line has at most 262144",
		`{"time":"noon"}`:                      `time: "noon" must be a time as %START_TIME% has it, such as 2026-11-26T14:37:20.227Z, see docs`,
		`{"time":"9999-12-31T23:59:59-01:00"}`: `time: "9999-12-31T23:59:59-01:00" must be a time`,
		`{"ms":"1.5"}`:                         `ms: "1.5" must be a whole number`,
		`{"ms":9223372036854775807}`:           `ms: "9223372036854775807" must be`,
		`{"ms":-1}`:                            `ms: "-1" must be`,
		`{"path":["/"]}`:                       "path: must be a text",
		`{"headers":"x-user: ann"}`:            "headers: must be an object of names and values",
		`{"headers":{"x-user":["ann"]}}`:       "headers: x-user: must be a text",
	} {
		if err := parse(t, &l, line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.99s: %v, want %s", line, err, want)
		}
	}
}

// Whatever a line is: it is read again as the first time, what it has of headers is what another parser finds, and as the user
// agent of a combined log it is read as it was sent.
func FuzzParse(f *testing.F) {
	for _, line := range []string{admitted, denied, apacheLine, envoyLine, "", "{", `{"headers":{"A":"b\u0041","a":null}}`, `{"headers":null}`, `{"headers":{"\u0041\\n":"b"}}`} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		l := new(Line)
		_ = l.Parse([]byte(denied))
		err := parse(t, l, line)
		var fields map[string]json.RawMessage
		var headers map[string]any
		if err == nil && l.Format == "" || l.Recorded() == "" {
			t.Errorf("%s: %+v", line, l)
		}
		quoted := new(strings.Builder)
		for _, b := range []byte(line) {
			fmt.Fprintf(quoted, `\x%02x`, b)
		}
		agent := `192.0.2.1 - - [26/Nov/2026:15:37:20 +0100] "GET / HTTP/1.1" 200 - "-" "` + quoted.String() + `"`
		if other := new(Line); len(agent) < MaxLine && line != "-" && (other.Parse([]byte(agent)) != nil || other.Request.Headers["user-agent"] != line) {
			t.Errorf("%s is %+v", agent, other)
		}
		if err != nil || json.Unmarshal([]byte(line), &fields) != nil || json.Unmarshal(fields["headers"], &headers) != nil {
			return
		}
		for name := range headers {
			if strings.ToValidUTF8(name, "") == name && !strings.Contains(name, "\ufffd") && !l.Known[request.HeaderInput(strings.ToLower(name))] && request.HeaderInput(strings.ToLower(name)) != "host" {
				t.Errorf("%s: %q is not known: %+v", line, name, l)
			}
		}
	})
}
