package e2e

import (
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// model plays an upstream that answers as x-answer says: with a status; with what a request has used, x-used, in a place of the
// response; with "grpc-header" or "grpc-trailer" and a status of gRPC; with "early" and a status, and 103 before it; with "third"
// and a status, and 503 to the first two attempts of a request; or never, with "hold". What comes before the last response states
// another cost.
type model struct{ attempts atomic.Int64 }

func (o *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	how, number, _ := strings.Cut(r.Header.Get("x-answer"), " ")
	used, h := r.Header.Get("x-used"), w.Header()
	lasts, _ := time.ParseDuration(r.Header.Get("x-lasts"))
	time.Sleep(lasts)
	usage := `{"usage":{"total_tokens":` + used + `}}`
	switch how {
	case "header":
		h["X-Tokens"] = strings.Split(used, " ")
	case "early":
		h.Set("x-tokens", "70")
		w.WriteHeader(http.StatusEarlyHints)
		h.Set("x-tokens", used)
	case "third":
		h.Set("x-tokens", used)
		if o.attempts.Add(1)%3 != 0 {
			h.Set("x-tokens", "70")
			number = "503"
		}
	case "hold":
		<-r.Context().Done()
		return
	case "grpc-header":
		h.Set("content-type", "application/grpc")
		h.Set("grpc-status", number)
	case "trailer", "grpc-trailer":
		name, value := "x-tokens", used
		if how == "grpc-trailer" {
			h.Set("content-type", "application/grpc")
			name, value = "grpc-status", number
		}
		h.Set(http.TrailerPrefix+name, value)
		_, _ = w.Write([]byte("message"))
		w.(http.Flusher).Flush() // no length, by which a client would leave before the trailers
	case "metadata":
		h.Set("x-used", used)
	case "json":
		_, _ = w.Write([]byte(usage))
	case "uncounted":
		h.Set("content-type", "application/grpc")
		h.Set(http.TrailerPrefix+"grpc-status", "0")
		_, _ = w.Write(make([]byte, 60<<10))
		w.(http.Flusher).Flush()
	case "events":
		h.Set("content-type", "text/event-stream")
		for _, event := range []string{`{"usage":{"total_tokens":1}}`, `{"choices":[]}`, usage, `{"usage":null}`, "[DONE]"} {
			_, _ = fmt.Fprintf(w, "data: %s\n\n", event)
			w.(http.Flusher).Flush()
		}
	case "gzip":
		h.Set("content-encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write([]byte(usage))
		_ = z.Close()
	default:
		number = how
	}
	if status, _ := strconv.Atoi(number); status >= http.StatusOK { // less is a status of gRPC, or none
		w.WriteHeader(status)
	}
}

// TestActualCost: a request costs what its response states, in each place that the module sees, and otherwise what it has
// reserved. The same world shows which responses count, and what rules read of metadata.
func TestActualCost(t *testing.T) {
	actual := map[string]string{
		"header": "header: x-tokens", "trailer": "trailer: x-tokens", "metadata": "metadata: { namespace: ai, key: used }",
		"json": "body: usage.total_tokens", "events": "body: usage.total_tokens", "gzip": "body: usage.total_tokens",
	}
	const all = "limit: 1000/1d, consistency: exact, timeout: 1s, on_failure: deny, cost: { estimate: 50, max: 400, actual: "
	rules := "rules:\n  - { name: odd, match: { path: { prefix: /odd } }, key: [{ header: x-user }], " + all +
		"{ header: x-tokens } } }\n"
	for where, source := range actual {
		rules += userRule(where, all+"{ "+source+" } }")
	}
	rules += "  - { name: uncounted, match: { path: /uncounted }, key: [], limit: 1000/1d, scope: pop, count: { grpc_status: [16] }, " +
		"cost: { estimate: 1, actual: { body: usage.total_tokens }, max: 400 } }\n"
	rules += userRule("budget", "limit: 20000/1d, consistency: leased, timeout: 1s, on_failure: deny, "+
		"cost: { estimate: { header: x-max, max: 200 }, actual: { metadata: { namespace: ai, key: used } }, max: 200 }")
	var logs []string // by PoP
	upstream := new(model)
	s := start(t, stack.Config{Workers: 1, Rules: rules + rulesOfMetadata() + countRules, Upstream: upstream, Bootstrap: bothModules(func(b *envoy.Bootstrap, _ bool) {
		type m = map[string]any
		b.SetHTTP2("upstream")
		for path, status := range map[string]int{"/odd": 200, "/exact": 401} {
			b.AddRoute(m{"match": m{"path": path + "/direct"}, "direct_response": m{"status": status}})
			b.AddRoute(m{"match": m{"path": path + "/late"}, "route": m{"cluster": "upstream", "timeout": "0.05s"}})
			b.AddRoute(m{"match": m{"path": path + "/retried"}, "route": m{"cluster": "upstream", "retry_policy": m{"retry_on": "5xx", "num_retries": 2}}})
		}
		setMetadata(b)
		logs = append(logs, filepath.Join(t.TempDir(), "access.log"))
		b.SetAccessLog(logs[len(logs)-1])
	})})
	t.Run("count", func(t *testing.T) { countsByResponse(t, s, upstream) })
	for i, p := range s.PoPs {
		undisturbed(t, "cost at "+p.Name, s, func(t proc.T, user string) { settlesCosts(t, p, p.Name+user, actual, isNative(i)) })
		undisturbed(t, "odd responses at "+p.Name, s, func(t proc.T, user string) { oddResponses(t, p, p.Name+user, upstream) })
		t.Run("metadata at "+p.Name, func(t *testing.T) { readsMetadata(t, p, logs[i], isNative(i)) })
	}
	proc.Together(len(s.PoPs), func(i int) { keepsNoBodies(t, s.PoPs[i]) })
	thrice(t, func(user string) bool { return usesBudget(t, s, user) })
}

// settlesCosts has a user of its own in each place where a response may state its cost.
func settlesCosts(t proc.T, p *stack.PoP, user string, places map[string]string, native bool) {
	left := func(where, user, used string) string {
		t.Helper()
		r := p.Get("/"+where, "x-user", user, "x-answer", where, "x-used", used)
		expect(t, r, 200, nil)
		return r.Header.Get("RateLimit")
	}
	for where := range places {
		const all, estimate, most = 1000, 50, 400
		want, each := all, 0
		for used, cost := range map[string]int{"10": 10, "50": 50, "300": 300, "9999": most, "-3": estimate, "0": 0} {
			left(where, user, used)
			want -= cost
		}
		switch sees := native && where != "gzip" || where == "header" || where == "metadata"; {
		case !sees:
			want, each = all-7*estimate, estimate
		case where != "header": // it states what is left before it is settled
			want -= estimate
		}
		proc.Eventually(t, 10*time.Second, fmt.Sprint(where, " leaves ", want), func() bool {
			r := p.Get("/"+where, "x-user", user, "x-answer", where, "x-used", "0")
			expected := fmt.Sprint(";r=", want, ";")
			want -= each // the next request finds that much less
			return strings.Contains(r.Header.Get("RateLimit"), expected)
		})
	}
	for used, want := range map[string]string{"10 20": map[bool]string{false: "990", true: "980"}[native], "20 10": "980"} { // WASM sees the first header
		if got := left("header", user+used, used); !strings.Contains(got, ";r="+want+";") {
			t.Errorf("two headers, %s: %s", used, got)
		}
	}
}

// oddResponses has the last response to a request settle it, once, and requests that Envoy answers cost what they have reserved.
func oddResponses(t proc.T, p *stack.PoP, user string, upstream *model) {
	upstream.attempts.Store(0)
	for _, c := range []struct {
		method, path, where, lasts string
		status, cost               int
	}{
		{"GET", "/odd", "early 200", "", 200, 30},
		{"HEAD", "/odd", "header", "", 200, 30},
		{"HEAD", "/odd", "json", "", 200, 50},
		{"GET", "/odd/retried", "third 200", "", 200, 30},
		{"GET", "/odd/direct", "header", "", 200, 50},
		{"GET", "/odd/late", "header", "3s", 504, 50},
	} {
		user := user + c.method + c.path + c.where
		r, err := stack.Do(p.Addr, c.method, c.path, "", "x-user", user, "x-answer", c.where, "x-used", "30", "x-lasts", c.lasts)
		if err != nil || r.Status != c.status {
			t.Errorf("%s: %v, status %d", user, err, r.Status)
		}
		want := fmt.Sprint(";r=", 1000-c.cost, ";")
		proc.Eventually(t, 10*time.Second, user+" leaves "+want, func() bool {
			r := p.Get("/odd", "x-user", user, "x-answer", "header", "x-used", "0")
			return strings.Contains(r.Header.Get("RateLimit"), want)
		})
	}
	if n := upstream.attempts.Load(); n != 3 {
		t.Errorf("%d attempts of a request that Envoy tried three times", n)
	}
}

// keepsNoBodies has responses settled by their trailers whose bodies were read for their cost.
func keepsNoBodies(t *testing.T, p *stack.PoP) {
	get := func() {
		expect(t, p.Get("/uncounted", "x-answer", "uncounted"), 200, nil)
	}
	get()
	before := p.Memory()
	for range 1000 {
		get()
	}
	if grown := p.Memory() - before; grown > 30<<20 {
		t.Errorf("%s has grown by %d MB after bodies of 60 MB", p.Name, grown>>20)
	}
}

// usesBudget has 200 streams at a time at both PoPs, of up to a second, which declare twice what they use. They use the budget up, and
// never more, until none of them is admitted for five seconds: more than what they return takes. It is false if much is left.
func usesBudget(t *testing.T, s *stack.Stack, user string) bool {
	var used, rejected, last atomic.Int64 // last: when a stream was admitted, in ms
	last.Store(time.Now().UnixMilli())
	proc.Together(200, func(client int) {
		dice := rand.New(rand.NewPCG(uint64(client), 1))
		for time.Now().UnixMilli()-last.Load() < 5000 {
			units := 1 + dice.Int64N(100)
			r, err := stack.Do(s.PoPs[client%2].Addr, http.MethodGet, "/budget", "", "x-user", user, "x-answer", "metadata",
				"x-used", fmt.Sprint(units), "x-max", fmt.Sprint(2*units), "x-lasts", fmt.Sprint(dice.IntN(1000), "ms"))
			switch {
			case err != nil:
				t.Error(err)
			case r.Status == 200:
				used.Add(units)
				last.Store(time.Now().UnixMilli())
			default:
				rejected.Add(1)
				time.Sleep(200 * time.Millisecond)
			}
		}
	})
	n := used.Load()
	if t.Logf("%d of 20000 are used, and %d requests rejected", n, rejected.Load()); n > 20_000 {
		t.Error("want 19000 to 20000")
	}
	return n >= 19_000
}
