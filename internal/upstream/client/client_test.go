package client_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/upstream/client"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
)

const rulesText = `
rules:
  - { name: ten, key: [client_ip], limit: 10/1h, algorithm: fixed_window, scope: global }
  - { name: hundred, key: [client_ip], limit: 100/1h, algorithm: fixed_window, scope: global }
`

// aggregator is a service on a memory store, behind a link that takes its time, or hangs.
type aggregator struct {
	t        testing.TB
	rules    *rule.Set
	service  *service.Service
	handler  http.Handler
	delay    atomic.Int64 // of a way, in nanoseconds
	hangs    atomic.Bool
	oneHangs atomic.Bool            // the address "one", also when it is probed
	last     atomic.Value           // string: the address of the last call that did not hang so
	rejects  atomic.Pointer[string] // is the body of a rejection of each call; nil: none is rejected
	change   func(*wire.Response)   // what it answers, before it is sent; nil: nothing changes

	mu    sync.Mutex
	calls []wire.Request
}

func newAggregator(t testing.TB) *aggregator {
	t.Helper()
	set := fatal.Get(rulefile.Parse("rules.yaml", []byte(rulesText)))(t)
	a := &aggregator{t: t, rules: set}
	a.serve(nil)
	return a
}

// serve begins anew, with a tracer.
func (a *aggregator) serve(tracer *telemetry.Tracer) {
	a.service = service.NewService(service.Config{Store: memory.New(memory.Config{MaxKeys: 1000, MaxBytes: 1 << 24}), Tracer: tracer})
	fatal.If(a.t, a.service.SetRules(a.rules))
	a.handler = service.NewHandler(a.service, nil)
}

// RoundTrip is the link to the aggregator.
func (a *aggregator) RoundTrip(r *http.Request) (*http.Response, error) {
	if body := a.rejects.Load(); body != nil {
		return &http.Response{StatusCode: 400, Status: "400 Bad Request", Body: io.NopCloser(strings.NewReader(*body)), Request: r}, nil
	}
	if r.URL.Host == "one" && a.oneHangs.Load() {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if r.Method == http.MethodGet { // /healthz
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
	}
	a.last.Store(r.URL.Host)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	var m wire.Request
	if err := m.Decode(body); err != nil {
		a.t.Error(err)
	}
	a.mu.Lock()
	a.calls = append(a.calls, m)
	a.mu.Unlock()
	if a.hangs.Load() {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	time.Sleep(time.Duration(a.delay.Load()))
	w := httptest.NewRecorder()
	q := httptest.NewRequest(r.Method, r.URL.Path, bytes.NewReader(body))
	q.Header = r.Header
	a.handler.ServeHTTP(w, q)
	if a.change != nil {
		var m wire.Response
		if err := m.Decode(w.Body.Bytes()); err != nil {
			return nil, err
		}
		a.change(&m)
		w.Body.Reset()
		w.Body.Write(m.Append(nil))
	}
	time.Sleep(time.Duration(a.delay.Load()))
	return w.Result(), r.Context().Err()
}

// called are the calls that have come.
func (a *aggregator) called() []wire.Request {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.calls)
}

// replica makes a store of a region that asks the aggregator. It runs until the test ends.
func (a *aggregator) replica(region string, change ...func(*client.Config)) *client.Store {
	a.t.Helper()
	c := client.Config{Addresses: []string{"one"}, Region: region, Transport: a, Metrics: telemetry.NewRegistry("")}
	for _, change := range change {
		change(&c)
	}
	s := fatal.Get(client.New(c))(a.t)
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(a.t.Context()) })
	a.t.Cleanup(running.Wait)
	return s
}

// ask asks for units of a rule.
func (a *aggregator) ask(rule, key string, units int64) engine.Ask {
	return engine.Ask{Policy: a.service.Policy(rule, 0, nil), Key: []byte(key), Want: lease.Want{Need: units, Waiting: units, Want: units}}
}

func acquire(s engine.Store, asks ...engine.Ask) []lease.Grant {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	grants := make([]lease.Grant, len(asks))
	s.Acquire(ctx, asks, grants)
	return grants
}

// inBubble runs a test in virtual time.
func inBubble(t *testing.T, test func(t *testing.T, a *aggregator)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newAggregator(t)) })
}

func TestAsksAndReturns(t *testing.T) {
	inBubble(t, func(t *testing.T, a *aggregator) {
		s := a.replica("eu")
		g := acquire(s, a.ask("ten", "k", 3))[0]
		if g.Status != lease.OK || g.Granted != 3 || g.Remaining != 7 || g.Limit != 10 || g.TTL == 0 {
			t.Fatalf("%+v", g)
		}
		if got := acquire(s, a.ask("ten", "k", 8))[0]; got.Status != lease.Denied || got.Granted != 0 || got.RetryAfter == 0 {
			t.Errorf("8 of 7: %+v", got)
		}
		look := engine.Ask{Policy: a.service.Policy("ten", 0, nil), Key: []byte("k"), Op: engine.Look}
		reset := look
		reset.Op = engine.Reset
		if g := acquire(s, reset)[0]; g.Status != lease.Unavailable {
			t.Errorf("a reset for a region: %+v", g)
		}
		if g := acquire(s, look)[0]; g.Status != lease.OK || g.Remaining != 7 || g.Limit != 10 || g.Granted != 0 {
			t.Errorf("%+v, want 7 of 10 left", g)
		}
		back := engine.Ask{Policy: a.service.Policy("ten", 0, nil), Key: []byte("k"), Want: lease.Want{Unused: 2, Lease: g.Lease}}
		if got := acquire(s, back)[0]; got.Remaining != 9 {
			t.Errorf("%d left after 2 of 3 came back, want 9", got.Remaining)
		}
		for i, call := range a.called() { // one after the other: each confirms the one before
			if call.Seq != uint64(i+1) || call.Ack != uint64(i) {
				t.Errorf("call %d: %+v", i, call)
			}
		}
	})
}

// Asks of many callers travel together, and each gets its own grants. Groups stay apart.
func TestGathers(t *testing.T) {
	inBubble(t, func(t *testing.T, a *aggregator) {
		s := a.replica("eu")
		a.delay.Store(int64(75 * time.Millisecond))
		const callers = 100
		var all sync.WaitGroup
		for i := range callers {
			all.Go(func() {
				asks := []engine.Ask{a.ask("ten", fmt.Sprint(i), 1), a.ask("hundred", fmt.Sprint(i), int64(i+1))}
				asks[0].Group, asks[1].Group = 7, 7
				if i%2 == 0 {
					asks[0].Want = lease.Want{Need: 11, Waiting: 11, Want: 11} // denied, and the other with it
				}
				grants := acquire(s, asks...)
				if i%2 == 0 && (grants[0].Status != lease.Denied || grants[1].Granted != 0) ||
					i%2 == 1 && (grants[0].Granted != 1 || grants[1].Granted != int64(i+1) || grants[1].Remaining != int64(99-i)) {
					t.Errorf("caller %d: %+v", i, grants)
				}
			})
		}
		begin := time.Now()
		all.Wait()
		if took := time.Since(begin); took > 160*time.Millisecond {
			t.Errorf("took %v, the way there and back takes 150 ms", took)
		}
		calls := slices.DeleteFunc(a.called(), func(c wire.Request) bool { return len(c.Wants) == 0 }) // heartbeats
		if len(calls) != 1 || len(calls[0].Wants) != 2*callers {
			t.Errorf("the calls were %+v, want one with %d wants", calls, 2*callers)
		}
	})
}

// While the aggregator hangs, the first callers wait for the timeout and nobody after them.
// It is asked again as soon as a probe is answered.
func TestHangs(t *testing.T) {
	inBubble(t, func(t *testing.T, a *aggregator) {
		var log bytes.Buffer
		metrics := telemetry.NewRegistry("")
		s := a.replica("eu", func(c *client.Config) { c.Log, c.Metrics = slog.New(slog.NewTextHandler(&log, nil)), metrics })
		acquire(s, a.ask("ten", "k", 1))
		a.hangs.Store(true)
		begin := time.Now()
		if g := acquire(s, a.ask("ten", "k", 1))[0]; g.Status != lease.Unavailable {
			t.Errorf("%+v", g)
		}
		if took := time.Since(begin); took < client.DefaultTimeout || took > client.DefaultTimeout+20*time.Millisecond {
			t.Errorf("waited %v, want the timeout", took)
		}
		begin = time.Now()
		for range 1000 {
			if g := acquire(s, a.ask("ten", "k", 1))[0]; g.Status != lease.Unavailable {
				t.Fatalf("%+v", g)
			}
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("asks of an unavailable aggregator waited %v", took)
		}
		before := len(a.called())
		time.Sleep(10 * time.Second)
		if probes := len(a.called()) - before; probes > 150 {
			t.Errorf("%d probes in 10 s", probes)
		}
		a.hangs.Store(false)
		time.Sleep(700 * time.Millisecond)
		if g := acquire(s, a.ask("ten", "k", 1))[0]; g.Granted != 1 {
			t.Errorf("after the probe: %+v", g)
		}
		synctest.Wait()
		told := log.String() + measure.Page(metrics.Handler())
		for _, want := range []string{"aggregator does not answer", "msg=\"aggregator answers\"", `_calls_total{result="timed_out"}`, `_calls_total{result="answered"}`} {
			if !strings.Contains(told, want) || strings.Contains(told, want+" 0\n") {
				t.Errorf("no %s in\n%s", want, told)
			}
		}
	})
}

// All replicas of all regions should call one aggregator: the first healthy one of the addresses.
func TestBackToFirst(t *testing.T) {
	inBubble(t, func(t *testing.T, a *aggregator) {
		a.replica("eu", func(c *client.Config) { c.Addresses = []string{"one", "two"} })
		time.Sleep(5 * time.Second)
		a.oneHangs.Store(true)
		time.Sleep(time.Minute)
		if got := a.last.Load(); got != "two" {
			t.Errorf("%v is called while the first address hangs", got)
		}
		a.oneHangs.Store(false)
		time.Sleep(11 * time.Second)
		if got := a.last.Load(); got != "one" {
			t.Errorf("%v is called though the first address is well again", got)
		}
	})
}

// A store without addresses asks nobody. It calls those that it gets, and stays with the one
// that it calls while that is listed.
func TestMove(t *testing.T) {
	inBubble(t, func(t *testing.T, a *aggregator) {
		s := a.replica("eu", func(c *client.Config) { c.Addresses = nil })
		if g := acquire(s, a.ask("ten", "k", 1))[0]; g.Status != lease.Unavailable {
			t.Errorf("without addresses: %+v", g)
		}
		s.Move(nil)
		time.Sleep(5 * time.Second)
		if calls := a.called(); len(calls) > 0 {
			t.Errorf("%d calls without addresses", len(calls))
		}
		for i, step := range []struct {
			list []string
			want string
		}{
			{[]string{"one"}, "one"},
			{[]string{"new", "one"}, "one"},
			{[]string{"new", "third"}, "new"},
			{nil, "new"},
			{[]string{"third"}, "third"},
		} {
			s.Move(step.list)
			g := acquire(s, a.ask("ten", "k", 1))[0]
			if got := a.last.Load(); g.Granted != 1 || got != step.want {
				t.Errorf("step %d: %v was called, want %s: %+v", i, got, step.want, g)
			}
		}
	})
}
