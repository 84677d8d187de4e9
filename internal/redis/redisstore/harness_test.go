package redisstore

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/script"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// TestMain lets four tests run at once, also on a machine of two cores: they mostly wait for their servers.
func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", "4") // a flag of the command line replaces it
	m.Run()
}

// start runs a store for as long as the test and waits until it is ready.
func start(t testing.TB, c Config, prepare ...func(*Store)) *Store {
	t.Helper()
	s := launch(t, c, prepare...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	fatal.If(t, s.Ready(ctx))
	return s
}

// notReady is why a store is not ready now; nil: it is.
func notReady(t testing.TB, s *Store) error {
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	return s.Ready(ctx)
}

// onEach runs a command on each of some servers.
func onEach(servers []*redistest.Server, command ...any) {
	for _, s := range servers {
		s.Do(command...)
	}
}

// launch runs a store for as long as the test, prepared before.
func launch(t testing.TB, c Config, prepare ...func(*Store)) *Store {
	t.Helper()
	if c.Redis.Timeout == 0 {
		c.Redis.Timeout = 5 * time.Second // the machine may be busy
	}
	s := fatal.Get(New(c))(t)
	for _, p := range prepare {
		p(s)
	}
	runBeside(t, s.Run)
	return s
}

// runBeside runs something beside the test, until its end.
func runBeside(t testing.TB, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- run(ctx) }()
	t.Cleanup(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("Run: %v", err)
			}
		case <-time.After(20 * time.Second):
			t.Error("Run does not end")
		}
	})
}

// fixedPolicy is so many units in a window that does not end within a test, exact.
func fixedPolicy(t testing.TB, rule string, count int64) *engine.Policy {
	t.Helper()
	return policyOf(t, rule, limit.Spec{Algorithm: limit.FixedWindow, Count: count, Period: 300 * limit.Day})
}

func policyOf(t testing.TB, rule string, spec limit.Spec) *engine.Policy {
	t.Helper()
	l := fatal.Get(limit.New(spec))(t)
	return engine.NewPolicy(rule, 0, l, lease.NewTerms(l, lease.Exact, 0, 0, 0))
}

// nameOf is the name of a counter in Redis.
func nameOf(p *engine.Policy, key string) string {
	return string(script.AppendKey(nil, p, []byte(key)))
}

func one(p *engine.Policy, key string) engine.Ask {
	return engine.Ask{Policy: p, Key: []byte(key), Want: lease.Want{Need: 1, Waiting: 1, Want: 1}}
}

// acquire asks with so much time.
func acquire(t testing.TB, s *Store, budget time.Duration, asks ...engine.Ask) []lease.Grant {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), budget)
	defer cancel()
	grants := make([]lease.Grant, len(asks))
	s.Acquire(ctx, asks, grants)
	return grants
}

// metric is the value of a metric of Redis.
func metric(s *Store, series string) int {
	return int(measure.Of(s.topology.Config.Metrics.Handler())["weir_redis_"+series])
}

// unavailable is how many asks could not be decided for a reason.
func unavailable(s *Store, reason string) int {
	return metric(s, fmt.Sprintf("unavailable_total{reason=%q}", reason))
}

const plenty = 10 * time.Second

// decides asks for one unit, and demands a status.
func decides(t testing.TB, s *Store, p *engine.Policy, key string, want lease.Status) {
	t.Helper()
	if g := acquire(t, s, plenty, one(p, key))[0]; g.Status != want {
		t.Fatalf("%s: %+v, want status %d", key, g, want)
	}
}

// awaits asks for one unit until it gets a status.
func awaits(t testing.TB, s *Store, p *engine.Policy, key string, want lease.Status) {
	t.Helper()
	eventually(t, func() (bool, any) {
		g := acquire(t, s, plenty, one(p, key))[0]
		return g.Status == want, g
	})
}

// remaining is what a counter has left.
func remaining(t testing.TB, s *Store, p *engine.Policy, key string) int64 {
	t.Helper()
	g := acquire(t, s, plenty, engine.Ask{Policy: p, Key: []byte(key)})[0]
	if g.Status != lease.OK {
		t.Fatalf("what remains of %s: %+v", key, g)
	}
	return g.Remaining
}

// eventually waits until it is so; got is what there is meanwhile.
func eventually(t testing.TB, so func() (yes bool, got any)) {
	t.Helper()
	proc.Await(t, time.Minute, "what the test waits for", func() string {
		yes, got := so()
		if yes {
			return ""
		}
		return fmt.Sprintf("%+v", got)
	})
}

// arrived waits until an ask for a counter that was not there has run on its server. The number of scripts would not tell:
// a store tries them when it connects.
func arrived(t testing.TB, s *redistest.Server, name string) {
	t.Helper()
	eventually(t, func() (bool, any) { return s.Do("EXISTS", name) == int64(1), name + " is not there" })
}

// proxy is a TCP link to a server, which can be held up, or cut at the worst moment.
type proxy struct {
	addr   string
	target string
	// gate, while it is locked, holds up the replies: requests arrive.
	gate  sync.RWMutex
	whole atomic.Bool // also those on links that no script has travelled on
	// cutting has the link on which the next EVALSHA travels cut when its reply
	// arrives from the server, and nothing of that passed on.
	cutting atomic.Bool
	cut     atomic.Int64 // links that were cut that way
	// rejection is what links that are open when it is set answer to each script from then on, in
	// place of the server; with always, links that are opened later do, too.
	rejection atomic.Pointer[string]
	always    bool

	mu    sync.Mutex
	conns []net.Conn
}

func newProxy(t testing.TB, target string) *proxy {
	t.Helper()
	l := fatal.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &proxy{addr: l.Addr().String(), target: target}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			_ = c.Close()
		}
		p.mu.Unlock()
		serving.Wait()
	})
	return p
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	p.mu.Lock()
	p.conns = append(p.conns, client, server)
	p.mu.Unlock()
	var asked, doomed atomic.Bool
	opened := p.rejection.Load()
	go pass(server, client, func(request []byte) []byte {
		text, n := p.rejection.Load(), bytes.Count(bytes.ToUpper(request), []byte("\r\nEVAL"))
		if n > 0 {
			asked.Store(true)
		}
		if text != nil && n > 0 && (p.always || text != opened) {
			_, _ = client.Write(bytes.Repeat([]byte("-"+*text+"\r\n"), n))
			return []byte{}
		}
		if bytes.Contains(request, []byte("EVALSHA")) && p.cutting.CompareAndSwap(true, false) {
			doomed.Store(true)
		}
		return request
	})
	pass(client, server, func(reply []byte) []byte {
		if asked.Load() || p.whole.Load() {
			p.gate.RLock()
			defer p.gate.RUnlock()
		}
		if doomed.Load() {
			p.cut.Add(1)
			return nil
		}
		return reply
	})
}

// pass copies what on makes of it until one side closes or on returns nil, and closes both.
func pass(to, from net.Conn, on func([]byte) []byte) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		out := on(buf[:n])
		if out == nil {
			return
		}
		if _, err := to.Write(out); err != nil {
			return
		}
	}
}

// hang holds up all replies until the test ends, or resume is called.
func (p *proxy) hang(t testing.TB) (resume func()) {
	p.whole.Store(true)
	return p.hangScripts(t)
}

// hangScripts holds up those on links of scripts: who finds these links in use gets another one, and its ask arrives.
func (p *proxy) hangScripts(t testing.TB) (resume func()) {
	p.gate.Lock()
	resume = sync.OnceFunc(p.gate.Unlock)
	t.Cleanup(resume)
	return resume
}

// through routes the connections of a store to some addresses by way of proxies.
func through(proxies map[string]*proxy) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if p := proxies[addr]; p != nil {
			addr = p.addr
		}
		var d net.Dialer
		return d.DialContext(ctx, network, addr)
	}
}

// statusOf sums up grants.
func statusOf(grants []lease.Grant) string {
	n := map[lease.Status]int{}
	for _, g := range grants {
		n[g.Status]++
	}
	return fmt.Sprintf("%d ok, %d denied, %d unavailable", n[lease.OK], n[lease.Denied], n[lease.Unavailable])
}
