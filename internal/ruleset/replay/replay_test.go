package replay

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// noon is when logs begin.
var noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

// log is an access log.
type log struct{ bytes.Buffer }

// add adds the line of a request so long after noon.
func (l *log) add(after time.Duration, client, path, fields string) {
	fmt.Fprintf(l, `{"time":%q,"client":%q,"method":"GET","path":%q,"ms":"20"%s}`+"\n", noon.Add(after).Format("2006-01-02T15:04:05.000Z"), client, path, fields)
}

func rules(t testing.TB, text string) *rule.Set {
	t.Helper()
	return fatal.Get(rulefile.Read("rules.yaml", []byte(text)))(t).Set
}

func run(t testing.TB, log string, c Config) *Report {
	t.Helper()
	return fatal.Get(Run(strings.NewReader(log), c))(t)
}

const loginRules = `
rules:
  - name: login
    match: { path: /login }
    key: [client_ip]
    limit: 5/1m
    algorithm: fixed_window
`

// Each of 100 clients sends 8 requests in a minute, of which 5 are within the limit; 3 clients send 8 more in the next one.
func TestLogin(t *testing.T) {
	var l log
	for minute, clients := range []int{100, 3} {
		for n := range 8 {
			for c := range clients {
				at := time.Duration(minute)*time.Minute + time.Duration(n)*5*time.Second
				l.add(at+time.Duration(c)*time.Millisecond, fmt.Sprintf("192.0.2.%d", c), "/login", "")
			}
		}
	}
	l.add(time.Minute+50*time.Second, "192.0.2.1", "/other", "")
	r := run(t, l.String(), Config{Rules: rules(t, loginRules)})
	login := Rule{Rule: "login", Mode: "enforce", Matched: 824, Admitted: 515, Denied: 309, Keys: 100, KeysDenied: 100}
	if r.Requests != 825 || r.Admitted != 516 || r.Denied != 309 || !reflect.DeepEqual(r.Rules, []Rule{login}) {
		t.Errorf("%+v", r)
	}
	top := []Key{{"login", "192.0.2.0", 6, 6}, {"login", "192.0.2.1", 6, 6}, {"login", "192.0.2.2", 6, 6}, {"login", "192.0.2.10", 3, 3}}
	if len(r.Top) != topKeys || !reflect.DeepEqual(r.Top[:4], top) {
		t.Errorf("%+v", r.Top)
	}
	if r.From != noon || r.Until != noon.Add(110*time.Second) || r.Uncounted+r.Late+r.Broken.Lines != 0 {
		t.Errorf("%+v", r)
	}
}

// Lines within the window are sorted: the report is that of the log in order. Others count at the time of the one before.
func TestOrder(t *testing.T) {
	var sorted, mixed log
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 2000 {
		sorted.add(time.Duration(n)*100*time.Millisecond, fmt.Sprintf("192.0.2.%d", n%7), "/login", "")
	}
	lines := strings.SplitAfter(sorted.String(), "\n")
	for at := 0; at < 2000; at += 250 { // 25 s
		random.Shuffle(250, func(i, j int) { lines[at+i], lines[at+j] = lines[at+j], lines[at+i] })
	}
	mixed.WriteString(strings.Join(lines, ""))
	c := Config{Rules: rules(t, loginRules)}
	if got, want := run(t, mixed.String(), c), run(t, sorted.String(), c); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, sorted %+v", got, want)
	}
	sorted.add(0, "192.0.2.200", "/login", "") // 200 s too late
	if r := run(t, sorted.String(), c); r.Late != 1 || r.Requests != 2001 || r.From != noon || r.Until != noon.Add(1999*100*time.Millisecond) {
		t.Errorf("%+v", r)
	}
}
