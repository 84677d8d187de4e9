package edge

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"

	"pgregory.net/rapid"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/wasmfilter/edge/uplink"
)

// region is the service of a region, with counters in memory. A call that it rejects or warns about fails the test.
type region struct {
	*service.Service
	t       rapid.TB
	handler *service.Handler
	memory  *memory.Store
	set     *rule.Set
	wall    limit.Micros // of the last call

	calls, wants int // that it answered
	last         wire.Request
	keys         map[string]bool // RULE/KEY of which something was wanted
	traces       map[string]bool // traceparents of calls and of requests that wait for them

	share   uint32                  // of limits of scope global, in thousandths
	fails   lease.Status            // what it answers to wants; 0: it decides
	watch   uint32                  // watch_ms of its answers, but for those to reports
	shows   *quotav1.ReportResponse // the answer to a report; nil: nobody watches
	reports []shown
	lost    bool // reports are, while nobody watches
}

// shown is a report, and when it came.
type shown struct {
	at limit.Micros
	*quotav1.ReportRequest
}

func newRegion(t rapid.TB, set *rule.Set) *region {
	g := &region{t: t, wall: wallStart, keys: map[string]bool{}, traces: map[string]bool{}}
	now := func() limit.Micros { return g.wall }
	g.memory = memory.New(memory.Config{MaxKeys: 1 << 20, MaxBytes: 1 << 30, Now: now})
	g.Service = service.NewService(service.Config{
		Store: g, Now: now, Live: g, Share: func() uint32 { return g.share }, Log: slog.New(slog.NewTextHandler(g, nil)),
	})
	g.handler = service.NewHandler(g.Service, nil)
	g.use(set)
	return g
}

// use puts rules in force; those that hash keys as soon as there is a secret.
func (g *region) use(set *rule.Set, secrets ...rule.Secret) {
	if g.set = set; len(secrets) > 0 {
		fatal.If(g.t, g.SetSecrets(secrets))
	}
	_ = g.SetRules(set)
}

// serve answers a call; nil: it has no rules yet.
func (g *region) serve(wall limit.Micros, c uplink.Call) []byte {
	if g.wall = wall; c.Path == uplink.AcquirePath {
		fatal.If(g.t, g.last.Decode(c.Body))
		g.calls, g.wants = g.calls+1, g.wants+len(g.last.Wants)
		for _, trace := range append(g.last.TraceParent, c.TraceParent) {
			g.traces[trace] = true
		}
		for i := range g.last.Wants {
			g.keys[g.last.Wants[i].Rule+"/"+string(g.last.Wants[i].Key)] = true
		}
	}
	answer := httptest.NewRecorder()
	g.handler.ServeHTTP(answer, &http.Request{
		Method: http.MethodPost, URL: &url.URL{Path: c.Path}, Header: http.Header{"Content-Type": {"application/proto"}},
		Body: io.NopCloser(bytes.NewReader(c.Body)), ContentLength: int64(len(c.Body)), ProtoMajor: 1, ProtoMinor: 1,
	})
	switch answer.Code {
	case http.StatusOK:
		return answer.Body.Bytes()
	case http.StatusServiceUnavailable:
		return nil
	}
	g.t.Fatalf("%s: %d %s", c.Path, answer.Code, answer.Body)
	return nil
}

// Write takes a line of the service's log.
func (g *region) Write(line []byte) (int, error) {
	g.t.Fatalf("the region warns: %s", line)
	return len(line), nil
}

// Acquire asks the counters.
func (g *region) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	if g.fails == 0 {
		g.memory.Acquire(ctx, asks, grants)
		return
	}
	for i := range grants {
		grants[i] = lease.Grant{Status: g.fails}
	}
}

// WatchMs is for how long somebody watches.
func (g *region) WatchMs() uint32 { return g.watch }

// Take takes a report; one that a region would reject, or that comes too soon, fails the test.
func (g *region) Take(from any, r *quotav1.ReportRequest) (*quotav1.ReportResponse, error) {
	if _, err := live.New(live.Config{}).Take(from, r); err != nil || len(r.Members) != 1 {
		g.t.Fatalf("report: %v, %d members", err, len(r.Members))
	}
	for _, before := range g.reports {
		if before.Worker == r.Worker && g.wall < before.at+limit.Second {
			g.t.Fatalf("reports of one worker at %d and at %d", before.at, g.wall)
		}
	}
	g.reports = append(g.reports, shown{g.wall, r})
	return cmp.Or(g.shows, new(quotav1.ReportResponse)), nil
}

// spent is how many units of a key's limit are charged at a time of day.
func (g *region) spent(wall limit.Micros, rule, key string) int64 {
	g.wall = wall
	counter := fatal.Get(g.Peek(context.Background(), rule, []byte(key)))(g.t)[0]
	return counter.Limit - counter.Remaining
}
