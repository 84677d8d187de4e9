package scripts

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
	"github.com/weirlimit/weir/test/regions"
)

const (
	streamPoPs  = 4 // of each region
	streamTrip  = 80 * time.Millisecond
	tokens      = 160_000 // what streams may use in a day
	mostTokens  = 200     // that a stream uses; on average it is half of that
	arrivals    = 80      // streams per second
	offeredFor  = 75 * time.Second
	longest     = 30 * time.Second // stream
	blockedFor  = 3600             // s
	streamRules = `
regions: { eu: 1, us: 1, ap: 1 }
rules:
  - { name: reserved, match: { path: /reserved }, key: [{ header: x-play }], limit: 160000/1d, scope: global, timeout: 1s, on_failure: deny,
      cost: { header: x-max, max: 400 } }
  - { name: settled, match: { path: /settled }, key: [{ header: x-play }], limit: 160000/1d, scope: global, timeout: 1s, on_failure: deny,
      cost: { estimate: { header: x-max, max: 400 }, actual: { metadata: { namespace: ai, key: tokens } }, max: 400 } }
  - { name: failures, match: { path: /login }, key: [{ header: x-play }], limit: 5/1d, scope: global, timeout: 1s, on_failure: deny,
      count: { status: [401] }, on_limit: { block: 1h } }
`
)

// TestStreamsInRegions: streams in flight in three regions of four PoPs each, and a key that is blocked, through the failures of a region.
func TestStreamsInRegions(t *testing.T) {
	if os.Getenv(figuresEnv) == "" {
		t.Skip("`make e2e` plays the streams")
	}
	var inFlight stack.InFlight
	upstream := httptest.NewServer(inFlight.Track(http.HandlerFunc(answer)))
	t.Cleanup(upstream.Close)
	t.Cleanup(upstream.CloseClientConnections)
	w := regions.Start(t, regions.Config{Dir: proc.LogDir(t), Rules: streamRules, PoPs: streamPoPs, Spares: 1, Bootstrap: func(b *envoy.Bootstrap) {
		type m = map[string]any
		b.SetCluster("upstream", strings.TrimPrefix(upstream.URL, "http://"))
		b.AddRoute(m{"match": m{"prefix": "/"}, "route": m{"cluster": "upstream", "timeout": "0s"}})
		b.AddFilter(m{"name": "meta", "typed_config": m{
			"@type":          "type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config",
			"response_rules": []any{m{"header": "x-used", "on_header_present": m{"metadata_namespace": "ai", "key": "tokens", "type": "NUMBER"}}},
		}})
	}})
	w.SetTrip(streamTrip)
	t.Run("costs", func(t *testing.T) { costs(t, w, &inFlight) })
	t.Run("lock-out", func(t *testing.T) { locksOut(t, w) })
}

// answer is a stream that uses x-uses tokens and lasts as long as x-lasts says, or a login that fails.
func answer(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/login" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Header().Set("x-used", r.Header.Get("x-uses"))
	_, _ = w.Write([]byte("."))
	w.(http.Flusher).Flush()
	lasts, _ := time.ParseDuration(r.Header.Get("x-lasts"))
	select {
	case <-time.After(lasts):
	case <-r.Context().Done():
	}
}

// costs plays the same streams twice, first under a rule that keeps what they declare, which is twice what they use.
func costs(t *testing.T, w *regions.World, inFlight *stack.InFlight) {
	without := playStreams(t, w, "/reserved")
	with := playStreams(t, w, "/settled")
	var rows []regions.Row
	figure := func(name, bound string, holds bool, format string, args ...any) {
		rows = append(rows, regions.Row{Script: "streams", Figure: name, Bound: bound, Measured: fmt.Sprintf(format, args...), Kind: "always", Outcome: regions.Holds})
		if !holds {
			rows[len(rows)-1].Outcome = regions.Fails
			t.Errorf("%s: %s, want %s", name, rows[len(rows)-1].Measured, bound)
		}
		t.Logf("%s: %s", name, rows[len(rows)-1].Measured)
	}
	exact, lossless := with.exact(true), with.exact(false)
	percent := func(part, of int64) float64 { return 100 * float64(part) / float64(of) }
	perPoP := func(p *streams) float64 { return float64(p.calls) / p.took.Seconds() / float64(len(p.pops)) }
	figure("streams at a time", "at least 500", inFlight.Most() >= 500, "%d", inFlight.Most())
	figure("used, and kept for streams that died, of the limit", "at most 100 %", with.used+with.lost <= tokens, "%.2f %%, and %.2f %%",
		percent(with.used, tokens), percent(with.lost, tokens))
	figure("used of what one exact limiter admits, which loses the same", "at least 90 %", 100*with.used >= 90*exact, "%.1f %%", percent(with.used, exact))
	figure("used of what one exact limiter admits, which loses nothing", "", true, "%.1f %%", percent(with.used, lossless))
	figure("calls per second and PoP with settlement, and without", "at most one more", perPoP(with) <= perPoP(without)+1, "%.2f, and %.2f", perPoP(with), perPoP(without))
	figure("used of the limit without settlement", "", true, "%.1f %%", percent(without.used, tokens))
	figure("streams with settlement", "", true, "%d done, %d rejected, %d rejected by on_failure, %d died, %d without an answer",
		with.done, with.rejected, with.undecided, with.died, with.unanswered)
	write(t, rows)
}

// stream is one that a client asks for, and what became of it.
type stream struct {
	at, lasts time.Duration
	pop       int
	uses      int64 // it declares twice of that
}

// streams is one play.
type streams struct {
	t      *testing.T
	path   string
	begin  time.Time
	took   time.Duration
	all    []stream
	pops   []*envoy.Envoy
	down   []atomic.Bool
	killed []time.Duration // when; 0: it was not
	calls  int64

	mu         sync.Mutex
	used, lost int64 // tokens, of streams that were done, and that died with their Envoy
	done, died int
	rejected   int
	undecided  int // rejected by on_failure
	unanswered int // when their Envoy was killed
}

// playStreams offers streams of one key to all PoPs, while two of them and a replica are killed, and a region is cut off.
func playStreams(t *testing.T, w *regions.World, path string) *streams {
	p := &streams{t: t, path: path}
	for _, r := range w.Regions {
		p.pops = append(p.pops, r.PoPs...)
	}
	p.down, p.killed = make([]atomic.Bool, len(p.pops)), make([]time.Duration, len(p.pops))
	dice := rand.New(rand.NewPCG(1, 1))
	for at := time.Duration(0); at < offeredFor; at += time.Second / arrivals {
		p.all = append(p.all, stream{at, time.Duration(dice.Int64N(int64(longest))), dice.IntN(len(p.pops)), 1 + dice.Int64N(mostTokens)})
	}
	proc.AwaitDay()
	for _, pop := range p.pops {
		p.calls -= pop.Calls()
	}
	p.begin = time.Now()
	var open sync.WaitGroup
	open.Go(func() {
		for i := range p.all {
			s := &p.all[i]
			time.Sleep(time.Until(p.begin.Add(s.at)))
			for p.down[s.pop].Load() { // as a load balancer does
				s.pop = s.pop/streamPoPs*streamPoPs + (s.pop+1)%streamPoPs
			}
			open.Go(func() { p.ask(s) })
		}
	})
	for _, e := range []struct {
		at time.Duration
		do func()
	}{
		{12 * time.Second, func() { p.restart(w, 1) }},
		{20 * time.Second, w.Regions[1].Replicas[0].Kill},
		{24 * time.Second, w.Regions[1].Replicas[0].Begin},
		{26 * time.Second, func() { _ = w.Do("cut ap") }},
		{36 * time.Second, func() { _ = w.Do("heal ap") }},
		{40 * time.Second, func() { p.restart(w, 2*streamPoPs+2) }},
	} {
		time.Sleep(time.Until(p.begin.Add(e.at)))
		e.do()
	}
	open.Wait()
	for _, pop := range p.pops {
		p.calls += pop.Calls()
	}
	p.took = time.Since(p.begin)
	return p
}

// restart kills a PoP and starts it again. Clients know it as down until it decides by the rules.
func (p *streams) restart(w *regions.World, i int) {
	pop := p.pops[i]
	p.down[i].Store(true)
	p.calls += pop.Calls()
	p.killed[i] = time.Since(p.begin)
	pop.Kill()
	pop.Start()
	w.AwaitRules(pop)
	p.down[i].Store(false)
}

// ask asks for a stream and reads it to its end.
func (p *streams) ask(s *stream) {
	status, err := p.get(s)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case status == http.StatusOK && err == nil:
		p.done++
		p.used += s.uses
	case status == http.StatusOK && p.killed[s.pop] > 0:
		p.died++
		p.lost += 2 * s.uses
	case status == http.StatusTooManyRequests:
		p.rejected++
	case status == http.StatusServiceUnavailable:
		p.undecided++
	case status == 0 && p.killed[s.pop] > 0:
		p.unanswered++
	default:
		p.t.Errorf("a stream of %v at %s: status %d, %v", s.lasts, p.pops[s.pop].Name, status, err)
	}
}

// get returns a status of 0 if there was no answer, and an error if the stream did not end well.
func (p *streams) get(s *stream) (status int, err error) {
	resp, _, err := page.Get(p.t.Context(), &onItsOwn, "http://"+p.pops[s.pop].Addr+p.path,
		"x-play", "one", "x-lasts", s.lasts.String(), "x-uses", fmt.Sprint(s.uses), "x-max", fmt.Sprint(2*s.uses))
	if resp == nil {
		return 0, err
	}
	return resp.StatusCode, err
}

// onItsOwn is a client that has a connection for each request.
var onItsOwn = http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// exact is what one exact limiter lets the same streams use, of which each takes what it declares until it ends. With deaths the
// streams that were open when their Envoy was killed never end.
func (p *streams) exact(deaths bool) (used int64) {
	type end struct {
		at   time.Duration
		back int64
	}
	var open []end
	level := int64(0)
	for _, s := range p.all {
		still := open[:0]
		for _, e := range open {
			if e.at > s.at {
				still = append(still, e)
			} else {
				level -= e.back
			}
		}
		if open = still; level+2*s.uses > tokens {
			continue
		}
		level += 2 * s.uses
		if killed := p.killed[s.pop]; deaths && s.at < killed && killed < s.at+s.lasts {
			continue
		}
		used += s.uses
		open = append(open, end{s.at + s.lasts, s.uses})
	}
	return used
}

// locksOut blocks a key at a PoP. It is blocked at the PoPs of the other regions, and stays so while a replica is killed and the
// Redis master with its block is replaced.
func locksOut(t *testing.T, w *regions.World) {
	login := func(pop *envoy.Envoy) stack.Response {
		r, err := stack.Do(pop.Addr, http.MethodGet, "/login", "", "x-play", "eve")
		if err != nil {
			t.Fatalf("%s: %v", pop.Name, err)
		}
		return r
	}
	blocked := func(r stack.Response) bool {
		rest, _ := strconv.Atoi(r.Header.Get("Retry-After"))
		return r.Status == http.StatusTooManyRequests && rest > blockedFor/2
	}
	failures := 0
	proc.Eventually(t, time.Minute, "the block begins", func() bool {
		r := login(w.Regions[0].PoPs[0])
		if r.Status == http.StatusUnauthorized {
			failures++
		}
		return blocked(r)
	})
	if failures != 5 {
		t.Errorf("%d logins failed before the block, want 5", failures)
	}
	began := time.Now()
	var pops []*envoy.Envoy
	for _, r := range w.Regions {
		pops = append(pops, r.PoPs...)
	}
	everywhere := func(when string) {
		t.Helper()
		for _, pop := range pops {
			proc.Eventually(t, time.Minute, "the block at "+pop.Name+" "+when, func() bool {
				sent, r := time.Now(), login(pop)
				if r.Status != http.StatusTooManyRequests && sent.Sub(began) > time.Second+streamTrip {
					t.Errorf("%s: %s answers %d, %v after the block began", when, pop.Name, r.Status, sent.Sub(began))
				}
				return blocked(r)
			})
		}
	}
	everywhere("at first")
	t.Logf("all PoPs reject the key %v after the block began", time.Since(began))
	w.Regions[0].Replicas[0].Kill()
	everywhere("without a replica")
	w.Regions[0].Replicas[0].Start()
	w.Redis.Kill("failures", "eve")
	everywhere("while the master is away")
	w.Redis.Await()
	time.Sleep(2 * time.Second) // what PoPs remember of denials is over
	everywhere("with another master")
}
