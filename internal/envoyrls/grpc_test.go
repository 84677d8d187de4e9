package envoyrls

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/weirlimit/weir/internal/engine"
)

// serve serves b until the test ends, and returns where.
func (b *bench) serve() string {
	b.t.Helper()
	l := listen(b.t)
	go func() {
		if err := b.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			b.t.Errorf("serve: %v", err)
		}
	}()
	return l.Addr().String()
}

// dial connects to addr. The client tries to connect anew when a connection ends.
func dial(t testing.TB, addr string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	if len(options) == 0 {
		options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	conn, err := grpc.NewClient(addr, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// patient is the context of a call that must not fail for a slow machine.
func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestGRPC(t *testing.T) {
	b := newBench(t, specYAML)
	client := rlspb.NewRateLimitServiceClient(dial(t, b.serve()))
	response, err := client.ShouldRateLimit(patient(t), request(of("user", "a"), of("nothing", "")))
	if err != nil || inShort(response) != "OVER: OK 5, OVER 0" {
		t.Errorf("%v, %v", response, err)
	}
	if _, err := client.ShouldRateLimit(patient(t), request()); status.Code(err) != codes.Unknown || status.Convert(err).Message() != "rate limit descriptor list must not be empty" {
		t.Errorf("no descriptors: %v", err)
	}
	_, err = client.ShouldRateLimit(patient(t), request(of("user", strings.Repeat("x", 2<<20))))
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("an oversized request: %v", err)
	}
}

func TestHealth(t *testing.T) {
	b := newBench(t, "")
	client := healthpb.NewHealthClient(dial(t, b.serve()))
	check := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		for _, name := range healthNames {
			r, err := client.Check(patient(t), &healthpb.HealthCheckRequest{Service: name})
			if err != nil || r.Status != want {
				t.Errorf("health of %q: %v, %v; want %v", name, r, err, want)
			}
		}
	}
	check(healthpb.HealthCheckResponse_NOT_SERVING)
	b.configure(specYAML)
	check(healthpb.HealthCheckResponse_SERVING)
	b.SetReady(false)
	b.configure(specYAML)
	check(healthpb.HealthCheckResponse_NOT_SERVING)
	b.SetReady(true)
	check(healthpb.HealthCheckResponse_SERVING)
	b.Drain()
	b.configure(specYAML)
	b.SetReady(true)
	check(healthpb.HealthCheckResponse_NOT_SERVING)
}

// TestShutdownEndsStreams: a client that watches its health or keeps reflection open gets
// the end of its stream, and does not hold up the server's.
func TestShutdownEndsStreams(t *testing.T) {
	b := newBench(t, specYAML)
	conn := dial(t, b.serve())
	watch, err := healthpb.NewHealthClient(conn).Watch(patient(t), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	next := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if r, err := watch.Recv(); err != nil || r.Status != want {
			t.Fatalf("health: %v, %v; want %v", r, err, want)
		}
	}
	next(healthpb.HealthCheckResponse_SERVING)
	idle, err := reflectpb.NewServerReflectionClient(conn).ServerReflectionInfo(patient(t))
	if err == nil {
		err = idle.Send(&reflectpb.ServerReflectionRequest{MessageRequest: &reflectpb.ServerReflectionRequest_ListServices{}})
	}
	if err == nil {
		_, err = idle.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	b.Drain()
	next(healthpb.HealthCheckResponse_NOT_SERVING)
	if err := b.Shutdown(patient(t)); err != nil {
		t.Fatal(err)
	}
	for name, receive := range map[string]func() error{
		"health":     func() error { _, err := watch.Recv(); return err },
		"reflection": func() error { _, err := idle.Recv(); return err },
	} {
		if err := receive(); status.Code(err) != codes.Unavailable {
			t.Errorf("%s ends with %v", name, err)
		}
	}
}

// TestPanic: a mistake in the server is the end of one request. It is in the log with
// its place, and the client does not get it.
func TestPanic(t *testing.T) {
	var logged bytes.Buffer
	broken := &panicking{}
	b := newBench(t, specYAML, func(c *Config) {
		broken.judge, c.Judge = c.Judge, broken
		c.Log = slog.New(slog.NewTextHandler(&logged, nil))
	})
	client := rlspb.NewRateLimitServiceClient(dial(t, b.serve()))
	broken.now.Store(true)
	_, err := client.ShouldRateLimit(patient(t), request(of("user", "a")))
	if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "on purpose") {
		t.Errorf("over gRPC: %v", err)
	}
	if w := b.post(`{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"a"}]}]}`); w.Code != 500 {
		t.Errorf("over HTTP: %d %s", w.Code, w.Body)
	}
	broken.now.Store(false)
	r, err := client.ShouldRateLimit(patient(t), request(of("user", "a")))
	if err != nil || inShort(r) != "OK: OK 4" {
		t.Errorf("the next request: %v, %v", r, err)
	}
	if n := strings.Count(logged.String(), "on purpose"); n != 2 || !strings.Contains(logged.String(), "panicking).Judge") {
		t.Errorf("the log has it %d times: %s", n, logged.String())
	}
	if !b.metric(`weir_rls_requests_total{code="internal"} 2`) {
		t.Error("it is not counted")
	}
}

// judge is embedded under a name that is not its method's.
type judge = engine.Judge

// panicking is a judge that may panic.
type panicking struct {
	judge
	now atomic.Bool
}

func (p *panicking) Judge(ctx context.Context, asks []engine.Ask, judgments []engine.Judgment) {
	if p.now.Load() {
		panic("on purpose")
	}
	p.judge.Judge(ctx, asks, judgments)
}

// slow is a judge that takes its time.
type slow struct {
	judge
	entered, leave chan struct{}
}

func (s *slow) Judge(ctx context.Context, asks []engine.Ask, judgments []engine.Judgment) {
	s.entered <- struct{}{}
	<-s.leave
	s.judge.Judge(ctx, asks, judgments)
}

// TestShutdown: a request in flight is answered, new ones are not taken, and
// nothing is left running.
func TestShutdown(t *testing.T) {
	before := runtime.NumGoroutine()
	busy := &slow{entered: make(chan struct{}, 1), leave: make(chan struct{})}
	b := newBench(t, specYAML, func(c *Config) { busy.judge, c.Judge = c.Judge, busy })
	conn := dial(t, b.serve())
	answered := make(chan error, 1)
	go func() {
		r, err := rlspb.NewRateLimitServiceClient(conn).ShouldRateLimit(patient(t), request(of("user", "a")))
		if err == nil && inShort(r) != "OK: OK 4" {
			err = errors.New(inShort(r))
		}
		answered <- err
	}()
	<-busy.entered
	down := make(chan error, 1)
	go func() { down <- b.Shutdown(patient(t)) }()
	select {
	case err := <-down:
		t.Fatalf("down while a request is in flight: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	close(busy.leave)
	if err := errors.Join(<-answered, <-down); err != nil {
		t.Error(err)
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	eventually(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in 30 s: %s", what)
		}
	}
}

// TestDeadline: of the caller's time a part is kept for the way back.
func TestDeadline(t *testing.T) {
	var given time.Duration
	b := newBench(t, specYAML, func(c *Config) {
		c.Budget = time.Minute
		c.Judge = timed{c.Judge, &given}
	})
	for deadline, most := range map[time.Duration]time.Duration{
		0:                time.Minute,
		10 * time.Second: 10*time.Second - returnTime,
		time.Second / 50: time.Second / 50 * 3 / 4,
	} {
		ctx, cancel := t.Context(), context.CancelFunc(func() {})
		if deadline > 0 {
			ctx, cancel = context.WithTimeout(ctx, deadline)
		}
		if _, err := b.ShouldRateLimit(ctx, request(of("user", "a"))); err != nil {
			t.Error(err)
		}
		cancel()
		if given > most || deadline == 0 && given < most/2 {
			t.Errorf("the store has %v of %v, want at most %v", given, deadline, most)
		}
	}
}

// timed notes how much time it is given.
type timed struct {
	judge
	given *time.Duration
}

func (j timed) Judge(ctx context.Context, asks []engine.Ask, judgments []engine.Judgment) {
	deadline, _ := ctx.Deadline()
	*j.given = time.Until(deadline)
	j.judge.Judge(ctx, asks, judgments)
}
