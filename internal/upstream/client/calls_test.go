package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/proto"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/api/quota/v1/quotav1connect"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/upstream/client"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// roundTrip makes calls.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A report goes to its own path with the region and the holder filled in, and its answer says for how long somebody
// watches.
func TestReport(t *testing.T) {
	got := new(quotav1.ReportRequest)
	answer := &quotav1.ReportResponse{Protocol: 1, WatchMs: 5000, Tap: new(quotav1.Tap)}
	status := http.StatusOK
	s, err := client.New(client.Config{Addresses: []string{"aggregator:1"}, Region: "eu", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path != quotav1connect.QuotaServiceReportProcedure {
			t.Errorf("called %s", r.URL)
		}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = proto.Unmarshal(body, got)
		}
		text, bad := proto.Marshal(answer)
		return &http.Response{StatusCode: status, Status: "status", Body: io.NopCloser(bytes.NewReader(text)), Request: r}, errors.Join(err, bad)
	})})
	fatal.If(t, err)
	if s.Watched() != 0 || s.Unavailable() != 0 {
		t.Errorf("at first %v, %v", s.Watched(), s.Unavailable())
	}
	a, err := s.Report(context.Background(), &quotav1.ReportRequest{Pop: "x"})
	if err != nil || a.Tap == nil || got.Region != "eu" || len(got.Holder) != 16 || got.Pop != "x" || got.ProtocolMax != 1 {
		t.Errorf("%+v, %v; got %+v", a, err, got)
	}
	if left := s.Watched(); left <= 0 || left > 5*time.Second {
		t.Errorf("watched for %v", left)
	}
	answer.WatchMs = 0
	if _, err := s.Report(context.Background(), new(quotav1.ReportRequest)); err != nil || s.Watched() != 0 {
		t.Errorf("%v, watched for %v", err, s.Watched())
	}
	answer.Protocol = 99
	if a, err := s.Report(context.Background(), new(quotav1.ReportRequest)); err == nil {
		t.Errorf("of another version: %+v", a)
	}
	status = http.StatusForbidden
	if a, err := s.Report(context.Background(), new(quotav1.ReportRequest)); err == nil || s.Unavailable() != 0 {
		t.Errorf("rejected: %+v; unavailable %v", a, s.Unavailable())
	}
}

// A call for several callers is a child of the first that is traced and has links to the
// others, here and at the aggregator. A heartbeat is not traced.
func TestTrace(t *testing.T) {
	inBubble(t, func(t *testing.T, a *aggregator) {
		out := tracetest.NewInMemoryExporter()
		tracer := telemetry.NewTracer(sdk.NewTracerProvider(sdk.WithSyncer(out)))
		a.serve(tracer)
		s := a.replica("eu", func(c *client.Config) { c.Tracer = tracer })
		time.Sleep(3 * time.Second) // heartbeats
		const first, second = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-1af7651916cd43dd8448eb211c80319c-b7ad6b7169203332-01"
		var all sync.WaitGroup
		for _, parents := range [][]string{nil, {first}, {second}} {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(telemetry.WithWaiting(t.Context(), telemetry.ParseTraceParents(parents...)), time.Second)
				defer cancel()
				s.Acquire(ctx, []engine.Ask{a.ask("ten", "k", 1)}, make([]lease.Grant, 1))
			})
		}
		all.Wait()
		spans := out.GetSpans()
		if len(spans) != 2 {
			t.Fatalf("%d spans: %v", len(spans), spans)
		}
		served, called := spans[0], spans[1] // in the order in which they end
		if called.SpanKind != trace.SpanKindClient || len(called.Links) != 1 || called.Parent.TraceID() == called.Links[0].SpanContext.TraceID() {
			t.Errorf("the call: %+v", called)
		}
		if served.SpanKind != trace.SpanKindServer || served.Parent.SpanID() != called.SpanContext.SpanID() ||
			len(served.Links) != 1 || served.Links[0].SpanContext.TraceID() != called.Links[0].SpanContext.TraceID() {
			t.Errorf("the aggregator: %+v", served)
		}
	})
}

// A call with a huge number under a replica's id, or a replica that goes on from an old snapshot, costs that
// replica one call at a time.
func TestDroppedCalls(t *testing.T) {
	inBubble(t, func(t *testing.T, a *aggregator) {
		var log bytes.Buffer
		s := a.replica("eu", func(c *client.Config) { c.Log = slog.New(slog.NewTextHandler(&log, nil)) })
		took := func() bool { return acquire(s, a.ask("hundred", "k", 1))[0].Granted == 1 }
		if !took() {
			t.Fatal("nothing is granted")
		}
		for n := range 5 {
			last := a.called()[len(a.called())-1]
			forged := wire.Request{Protocol: 1, Holder: last.Holder, Worker: last.Worker, Region: "eu", Seq: math.MaxUint64 - uint64(n)}
			r := httptest.NewRequest("POST", quotav1connect.QuotaServiceAcquireProcedure, bytes.NewReader(forged.Append(nil)))
			r.Header.Set("Content-Type", "application/proto")
			a.handler.ServeHTTP(httptest.NewRecorder(), r)
			if g := acquire(s, a.ask("hundred", "k", 1))[0]; g.Status != lease.Unavailable {
				t.Errorf("%d: the call after it: %+v", n, g)
			}
			dropped := a.called()[len(a.called())-1]
			for range 3 {
				if !took() {
					t.Errorf("%d: nothing is granted afterwards", n)
				}
			}
			if next := a.called()[len(a.called())-1]; next.Seq <= dropped.Seq || next.Worker == dropped.Worker {
				t.Errorf("%d: call %d as %d, then call %d as %d", n, dropped.Seq, dropped.Worker, next.Seq, next.Worker)
			}
			time.Sleep(10 * time.Second)
		}
		synctest.Wait()
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "dropped a call") {
			t.Errorf("%d lines in a minute:\n%s", n, log.String())
		}
	})
}

// A connection breaks when a call has arrived and before its answer: the call may have been
// applied, so nothing sends it again.
func TestNoCallIsSentTwice(t *testing.T) {
	var mu sync.Mutex
	came, enough := map[uint64]int{}, make(chan struct{})
	server := httptest.NewUnstartedServer(nil)
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet { // /healthz
			return
		}
		var m wire.Request
		body, err := io.ReadAll(r.Body)
		if err != nil { // its connection broke before it was whole: it was not applied
			panic(http.ErrAbortHandler)
		}
		if err := m.Decode(body); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if came[m.Seq]++; len(came) == 10 && came[m.Seq] == 1 {
			close(enough)
		}
		if len(came)%2 == 0 { // the connection breaks, else the stream
			go server.CloseClientConnections()
			<-r.Context().Done()
		}
		panic(http.ErrAbortHandler)
	})
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	defer server.Close()
	a := newAggregator(t)
	s := a.replica("eu", func(c *client.Config) {
		c.Addresses, c.Transport = []string{server.Listener.Addr().String()}, nil
	})
	for over := time.After(time.Minute); ; {
		acquire(s, a.ask("ten", "k", 1)) // while the aggregator is unavailable heartbeats are calls, too
		select {
		case <-enough:
			mu.Lock()
			defer mu.Unlock()
			for seq, n := range came {
				if n > 1 {
					t.Errorf("call %d came %d times", seq, n)
				}
			}
			return
		case <-over:
			t.Fatal("fewer than ten calls within a minute")
		case <-time.After(10 * time.Millisecond):
		}
	}
}
