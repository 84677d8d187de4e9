package e2e

import (
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"net/http"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/stack"
)

const bystanderLimit = 10

// All rules have the same timeout, so that bystanders share their calls, and the breaker, with the hostile client.
func hostileRules() string {
	rules := "rules:\n" + rule("bystander", "limit: 10/300d, consistency: exact, timeout: 1s, on_failure: deny") +
		rule("bystander-leased", "limit: 10/300d, timeout: 1s, on_failure: deny") + `
  - { name: sum, match: { path: { prefix: /hostile } }, key: [], limit: 4294967295/1d, timeout: 1s,
      algorithm: fixed_window, consistency: exact, cost: { header: x-cost, max: 4294967295 } }
  - { name: wide, match: { path: { prefix: /hostile } }, limit: 100/1d, timeout: 1s,
      key: [{ header: x-user, else: client_ip }, { query: id, else: { const: none } }, method, path] }
`
	for i := range 70 {
		rules += fmt.Sprintf("  - { name: many-%d, match: { path: /hostile/many }, limit: 1000/1d, timeout: 1s,\n"+
			"      key: [{ header: x-user, else: client_ip }] }\n", i)
	}
	rules += rule("flood-window", "limit: 500/1m, timeout: 1s") // a leased and an exact limit that a flood can meet
	return rules + rule("flood-exact", "limit: 10/1m, consistency: exact, timeout: 1s")
}

// One client floods a PoP, or sends what is hostile, and neither other clients nor the region suffer from it.
func TestHostileClient(t *testing.T) {
	s := start(t, stack.Config{PoPs: 1, Rules: hostileRules()})
	t.Run("headers", func(t *testing.T) { thrice(t, func(user string) bool { return hostileHeaders(t, s, user) }) })
	t.Run("a flood makes few calls", func(t *testing.T) { floodMakesFewCalls(t, s) })
}

// What one client sends changes nothing for another one: bytes, lengths and repetition of everything that the filter reads of a
// request are hostile, and a bystander gets its limit to the unit, is never decided without the region, and the region rejects no
// call. It is false if answers were too late, as on a busy machine. A byte that breaks a call does so each time: the requests are the same.
func hostileHeaders(t *testing.T, s *stack.Stack, user string) bool {
	before := s.PoPs[0].Stats("wasmcustom.weir")
	lasting := orLong(3*time.Second, 2*time.Minute)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	attack, attack2 := make(chan *drive.Result), make(chan int)
	go func() { attack2 <- hostileOverHTTP2(ctx, s.PoPs[0].Addr) }()
	go func() {
		tally, _ := drive.Run(ctx, drive.Load{Addrs: s.Addrs(), Conns: 16, Request: hostile, Until: time.Now().Add(lasting), PerSecond: 400})
		attack <- tally
	}()
	bystanders, ok := 0, true
	for end := time.Now().Add(lasting); time.Now().Before(end) && !t.Failed(); bystanders++ {
		ok = bystander(t, s, "/bystander", fmt.Sprint(user, "-", bystanders), 0) && ok
		ok = bystander(t, s, "/bystander-leased", fmt.Sprint(user, "-", bystanders), 10*time.Second) && ok
	}
	stop()
	tally, over2 := <-attack, <-attack2
	t.Logf("%d bystanders; hostile requests: %v, failed %d, and %d over HTTP/2", bystanders, tally.Status, tally.Failed, over2)
	if tally.Status[200] == 0 || over2 == 0 {
		t.Error("no hostile request was admitted: the attack attacks nothing")
	}
	if tally.Status[503] > 0 || tally.Status[500] > 0 {
		t.Errorf("hostile requests were answered %v", tally.Status)
	}
	m := s.Region.Metrics()
	if calls, wants := m["weir_acquire_rejected_total"], m.Sum("weir_wants_rejected_total"); calls != 0 || wants != 0 {
		t.Errorf("the region rejected %v calls and %v wants", calls, wants)
	}
	late := map[string]int64{}
	for name, n := range s.PoPs[0].Stats("wasmcustom.weir") {
		n -= before[name]
		switch kind := path.Ext(name); {
		case n <= 0 || kind == ".answered":
		case kind == ".timeout" || kind == ".error" || kind == ".on_failure":
			late[name] = n
		case strings.Contains(name, ".reason.") || kind == ".panics":
			t.Errorf("%s is %d", name, n)
		}
	}
	t.Logf("late: %v; all bystanders have all of their units: %v", late, ok)
	return len(late) == 0 && ok
}

// bystander spends the limit of a user, and finds all of it: at once, or, where workers of the PoP hold leases and one may be rejected
// while another gives back its unit (1 of 2,000 without any attack), within patience. It is false if answers were too late.
func bystander(t *testing.T, s *stack.Stack, path, user string, patience time.Duration) bool {
	t.Helper()
	load := drive.Load{Addrs: s.Addrs(), Conns: 2, Count: 2 * bystanderLimit, Request: drive.Get(path, "x-user", user)}
	total, late := int64(0), int64(0)
	for end := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		tally := try(t, load)
		if total, late = total+tally.OK(), late+tally.Status[503]; tally.Other(200, 429, 503) > 0 {
			t.Errorf("%s, %s: %v", path, user, tally.Status)
		}
		if total >= bystanderLimit || time.Now().After(end) {
			break
		}
	}
	if total > bystanderLimit {
		t.Errorf("%s, %s: %d admitted, want %d", path, user, total, bystanderLimit)
	}
	return total == bystanderLimit && late == 0
}

// hostile appends a request in which everything that rules may read is hostile. The request n is always the same.
func hostile(buf []byte, n int64) []byte {
	r := &attacker{rand.New(rand.NewPCG(1, uint64(n)))}
	method := r.pick("GET", "GET", "GET", "POST", "POST", "PUT", "PATCH", "get", strings.Repeat("M", r.IntN(300)+1))
	path := r.pick("/hostile", "/hostile", "/hostile/many", "/hostile/many;x=1", "/hostile/%2e%2e/%ff", "/HOSTILE")
	buf = fmt.Appendf(buf, "%s %s%s HTTP/1.1\r\nhost: pop\r\n", method, path, r.query())
	for range r.IntN(3) {
		buf = fmt.Appendf(buf, "traceparent: %s\r\n", r.traceparent())
	}
	for range r.IntN(4) {
		buf = fmt.Appendf(buf, "x-cost: %s\r\n", r.cost())
	}
	for range r.IntN(3) {
		buf = fmt.Appendf(buf, "x-user: %s\r\n", r.text(r.length()))
	}
	return append(buf, "content-length: 0\r\n\r\n"...)
}

// hostileOverHTTP2 sends what Envoy rejects over HTTP/1, methods above all, until ctx ends, and counts the answers.
func hostileOverHTTP2(ctx context.Context, addr string) (answered int) {
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	for n := uint64(0); ctx.Err() == nil; n++ {
		r := &attacker{rand.New(rand.NewPCG(2, n))}
		method := r.pick("get", "PoSt", "!#$%&'*+.^_`|~", "GET", "DELETE", strings.Repeat("M", r.IntN(3000)+1))
		req, err := http.NewRequestWithContext(ctx, method, "http://"+addr+r.pick("/hostile", "/hostile/many")+r.pick("", "?id=&id=bob", "?id=%00%ff"), nil)
		if err != nil {
			continue
		}
		for name, value := range map[string]string{"traceparent": r.traceparent(), "x-cost": r.cost(), "x-user": r.text(r.length())} {
			for range r.IntN(3) {
				req.Header.Add(name, value)
			}
		}
		if resp, err := transport.RoundTrip(req); err == nil {
			resp.Body.Close()
			answered++
		}
		time.Sleep(5 * time.Millisecond)
	}
	return answered
}

type attacker struct{ *rand.Rand }

func (a *attacker) pick(from ...string) string { return from[a.IntN(len(from))] }

// length is mostly small, and now and then near the most that Envoy takes.
func (a *attacker) length() int {
	return []int{0, 1, 10, 95, 96, 97, 255, 256, 257, 1000, 8191, 30_000}[a.IntN(12)]
}

// text is n bytes, of any value that HTTP takes for a header and a few that it does not.
func (a *attacker) text(n int) string {
	b := make([]byte, n)
	for i := range b {
		for b[i] = byte(a.IntN(256)); b[i] < ' ' || b[i] == 0x7f; b[i] = byte(a.IntN(256)) {
			if a.IntN(100_000) == 0 {
				b[i] = 'x'
				break
			}
		}
	}
	return string(b)
}

func (a *attacker) query() string {
	return a.pick("", "?id=", "?id=&id=bob", "?id=bob&id=", "?%69d=%", "?id=%00%ff%zz", "?"+strings.Repeat("&", 3000),
		"?id="+strings.Repeat("%ff", 2000), "?"+strings.Repeat("id=x&", 1000), "#id=1")
}

func (a *attacker) traceparent() string {
	const trace, span = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	return a.pick("", "\xff", "\xc3\x28", "00-"+trace+"-"+span+"-01", "ff-"+trace+"-"+span+"-01",
		"00-"+strings.Repeat("0", 32)+"-"+span+"-01", "00-"+strings.ToUpper(trace)+"-"+span+"-01",
		"cc-"+trace+"-"+span+"-01-"+strings.Repeat("x", 20_000), strings.Repeat("\xff", 40_000), a.text(55), strings.Repeat("t", a.length()))
}

func (a *attacker) cost() string {
	return a.pick("", "0", "1", "-1", "4294967295", "4294967296", "18446744073709551616", strings.Repeat("9", 5000),
		"1,2,3", ",", "1e9", "0x7fffffff", " 7 ", "\xff", a.text(20), "4294967290, 3")
}

// However large a flood on one key, a PoP asks for it at most 10 times a second while it is rejected. Spending the limit takes some asks
// more, whatever the rate: in each window log2(L) to double its want up to the limit, and then, because H holders get a 2H-th of what
// remains with every ask, 2 ln(L) = 1.4 log2(L) until nothing does; and one per worker that has not cached the denial yet. An exact rule
// asks for each request that it admits, and no more.
//
// What the PoP asks for on its own account (rules, reports) is measured first, without load, and taken off.
func floodMakesFewCalls(t *testing.T, s *stack.Stack) {
	const workers = 2
	idle, idleFor := callsIn(s, time.Second, func(time.Time) {})
	for _, c := range []struct {
		rule            string
		limit, admitted int64
	}{
		{"flood-window", 500, 0},
		{"flood-exact", 10, 10},
	} {
		t.Run(c.rule, func(t *testing.T) {
			var tally *drive.Result
			calls, took := callsIn(s, 3*time.Second, func(until time.Time) {
				tally = offer(t, drive.Load{Addrs: s.Addrs(), Request: drive.Get("/"+c.rule, "x-user", "one"), Until: until})
			})
			windows := int64(2) // the run may meet one flip of a minute
			spending := 12*int64(bits.Len64(uint64(c.limit)))/5 + c.admitted
			most := int64(10*took.Seconds()) + windows*(spending+workers)
			own := int64(float64(idle[0]) * took.Seconds() / idleFor.Seconds())
			t.Logf("%d calls (%d of its own) for %d requests, at most %d", calls[0], own, tally.Sent(), most)
			if calls[0]-own > most {
				t.Errorf("%d calls for the flood, at most %d allowed", calls[0]-own, most)
			}
			if tally.Status[429] < 500 {
				t.Errorf("only %d requests were rejected: that is no flood", tally.Status[429])
			}
		})
	}
}

// callsIn counts the calls that each PoP makes to its region within d, while load
// runs until then. It returns how long it really looked: a busy machine takes longer.
func callsIn(s *stack.Stack, d time.Duration, load func(until time.Time)) (calls []int64, took time.Duration) {
	begin := time.Now()
	until := begin.Add(d)
	calls = make([]int64, len(s.PoPs))
	for i, p := range s.PoPs {
		calls[i] = -p.Calls()
	}
	load(until)
	time.Sleep(time.Until(until))
	for i, p := range s.PoPs {
		calls[i] += p.Calls()
	}
	return calls, time.Since(begin)
}
