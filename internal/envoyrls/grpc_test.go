package envoyrls

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	reflectpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// serve serves b until the test ends, and returns where.
func (b *bench) serve() string {
	b.t.Helper()
	l := fatal.Get(net.Listen("tcp", "127.0.0.1:0"))(b.t)
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
	conn := fatal.Get(grpc.NewClient(addr, options...))(t)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// patient is the context of a call that must not fail for a slow machine.
func patient(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// bytesCodec sends bytes as they are.
type bytesCodec struct{ encoding.CodecV2 }

func (c bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

// send sends a message as it is.
func send(t testing.TB, conn *grpc.ClientConn, message []byte) (*rlspb.RateLimitResponse, error) {
	response, asIs := new(rlspb.RateLimitResponse), grpc.ForceCodecV2(bytesCodec{encoding.GetCodecV2("proto")})
	return response, conn.Invoke(patient(t), rlspb.RateLimitService_ShouldRateLimit_FullMethodName, message, response, asIs)
}

// odd is a message in which each Q is the byte q.
func odd(t testing.TB, q string, r *rlspb.RateLimitRequest) []byte {
	t.Helper()
	data := fatal.Get(proto.Marshal(r))(t)
	return bytes.ReplaceAll(data, []byte("Q"), []byte(q))
}

// TestAnyBytes: Envoy passes on the bytes that its clients send, and admits a request that fails. So each byte
// is decoded, counts by itself and comes back in an answer that can be sent.
func TestAnyBytes(t *testing.T) {
	b := newBench(t, specYAML, func(c *Config) { c.Headers, c.Metadata = true, true })
	fatal.If(t, b.bindTo("rules: [{ name: bound, key: [{ header: x-user }], limit: 1/1d, algorithm: fixed_window, consistency: exact }]",
		"bindings: [{ domain: d, descriptor: [{ key: bound }], rule: bound }]"))
	conn := dial(t, b.serve())
	var twenty []*ratelimitpb.RateLimitDescriptor
	for i := range 20 {
		twenty = append(twenty, of("host", strings.Repeat("x", 58_000)+fmt.Sprint(i)))
	}
	own := request(limited(1, typepb.RateLimitUnit_DAY, of("nobody", "Q")))
	for _, c := range []struct {
		q    string
		what *rlspb.RateLimitRequest
		want []string
	}{
		{"\xff", request(of("user", "Q"), of("nothing", "")), []string{"OVER: OK 5, OVER 0"}},
		{"\xff", request(of("user", "Q")), []string{"OK: OK 4", "OK: OK 3", "OK: OK 2", "OK: OK 1", "OK: OK 0", "OVER: OVER 0"}},
		{"\xfe", request(of("user", "Q")), []string{"OK: OK 4"}},
		{"\xc0", request(of("user", "aQ")), []string{"OK: OK 4"}},
		{"\xc1", request(of("user", "aQ")), []string{"OK: OK 4"}},
		{"\xff", request(of("bound", "Q")), []string{"OK: OK 0", "OVER: OVER 0"}},
		{"\xfe", request(of("bound", "Q")), []string{"OK: OK 0"}},
		{"\xff", own, []string{"OK: OK 0", "OVER: OVER 0"}},
		{"\xfe", own, []string{"OK: OK 0"}},
		{"\xff", request(of("Q", "a")), []string{"OK: OK -"}},
		{"\xff", &rlspb.RateLimitRequest{Domain: "Q", Descriptors: request(of("user", "a")).Descriptors}, []string{"OK: OK -"}},
		{"Q", hits(2, request(twenty...)), []string{"OK: " + strings.TrimPrefix(strings.Repeat(", OK 0", 20), ", "), "OVER: " + strings.TrimPrefix(strings.Repeat(", OVER 0", 20), ", ")}},
	} {
		for i, want := range c.want {
			if r, err := send(t, conn, odd(t, c.q, c.what)); err != nil || inShort(r) != want {
				t.Errorf("%.80v with %q, request %d: %.80v, %v; want %s", c.what, c.q, i+1, r, err, want)
			}
		}
	}
	r, err := send(t, conn, odd(t, "\xff", request(of("user", "\"Q\""))))
	entry := r.GetDynamicMetadata().GetFields()["descriptors"].GetListValue().GetValues()[0].GetStructValue().GetFields()["entries"]
	if got := entry.GetListValue().GetValues()[0].GetStringValue(); err != nil || got != `user="\xff"` {
		t.Errorf("metadata has %s, %v", got, err)
	}
}

// TestUnread: what is too large or no request is an error, counted and in the log, and takes no room afterwards.
func TestUnread(t *testing.T) {
	var logged bytes.Buffer
	b := newBench(t, specYAML, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(&logged, nil)) })
	conn := dial(t, b.serve())
	small := odd(t, "Q", request(of("user", "a")))
	b.room.Store(int64(len(small)) - 1)
	if _, err := send(t, conn, small); !strings.Contains(fmt.Sprint(err), "requests in flight have more than 67108864 bytes") {
		t.Errorf("without room: %v", err)
	}
	proc.Eventually(t, time.Minute, "it has given back its bytes", func() bool { return b.room.CompareAndSwap(int64(len(small))-1, maxInFlight) })
	for _, c := range []struct {
		message []byte
		want    codes.Code
	}{
		{small, codes.OK},
		{append(small[:len(small):len(small)], 0x12, 9), codes.Internal},
		{bytes.Repeat([]byte{0xff}, maxMessage), codes.Internal},
		{make([]byte, maxMessage+1), codes.ResourceExhausted},
		{bytes.Repeat([]byte{0x12, 0}, maxMessage/2), codes.Unknown}, // of no domain
		{append([]byte{0x0a, 1, 'd'}, bytes.Repeat([]byte{0x12, 0}, maxMessage/2-2)...), codes.InvalidArgument},
	} {
		if _, err := send(t, conn, c.message); status.Code(err) != c.want {
			t.Errorf("%d bytes, %.20q: %v, want %v", len(c.message), c.message, err, c.want)
		}
	}
	proc.Eventually(t, time.Minute, "all have been counted and take no room", func() bool { // after their clients know
		return b.metric(`weir_rls_requests_total{code="unread"} 4`) && b.room.Load() == maxInFlight
	})
	if n := strings.Count(logged.String(), "rls: request cannot be read"); n != 1 {
		t.Errorf("logged %d times: %s", n, logged.String())
	}
}

// TestDecodesEveryField: decode takes a text as bytes where it stands in the request itself or in lists of messages.
// A field elsewhere, or a list of texts, is more than it knows.
func TestDecodesEveryField(t *testing.T) {
	var look func(m protoreflect.MessageDescriptor, reached bool)
	look = func(m protoreflect.MessageDescriptor, reached bool) {
		for i := range m.Fields().Len() {
			switch f := m.Fields().Get(i); {
			case f.IsMap(), f.IsList() && f.Message() == nil, !reached && f.Kind() == protoreflect.StringKind:
				t.Errorf("decode does not know %s", f.FullName())
			case f.Message() != nil:
				look(f.Message(), reached && f.IsList())
			}
		}
	}
	look(new(rlspb.RateLimitRequest).ProtoReflect().Descriptor(), true)
}

func TestHealth(t *testing.T) {
	b := newBench(t, "")
	client := healthpb.NewHealthClient(dial(t, b.serve()))
	check := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if w := b.http(http.MethodGet, "/healthcheck", ""); (w.Code == 200) != (want == healthpb.HealthCheckResponse_SERVING) {
			t.Errorf("/healthcheck: %d, want %v", w.Code, want)
		}
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

// TestPanic: a mistake in the server is the end of one request. It is in the log with
// its place, and the client does not get it.
func TestPanic(t *testing.T) {
	var logged bytes.Buffer
	var broken atomic.Bool
	b := newBench(t, specYAML, func(c *Config) {
		c.Judge = preceded(c.Judge, func(context.Context) {
			if broken.Load() {
				panic("on purpose")
			}
		})
		c.Log = slog.New(slog.NewTextHandler(&logged, nil))
	})
	client := rlspb.NewRateLimitServiceClient(dial(t, b.serve()))
	broken.Store(true)
	_, err := client.ShouldRateLimit(patient(t), request(of("user", "a")))
	if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "on purpose") {
		t.Errorf("over gRPC: %v", err)
	}
	if w := b.post(`{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"a"}]}]}`); w.Code != 500 {
		t.Errorf("over HTTP: %d %s", w.Code, w.Body)
	}
	broken.Store(false)
	r, err := client.ShouldRateLimit(patient(t), request(of("user", "a")))
	if err != nil || inShort(r) != "OK: OK 4" {
		t.Errorf("the next request: %v, %v", r, err)
	}
	if n := strings.Count(logged.String(), "on purpose"); n != 2 || !strings.Contains(logged.String(), "replaced.Judge") {
		t.Errorf("the log has it %d times: %s", n, logged.String())
	}
	b.has(`weir_rls_requests_total{code="internal"} 2`)
}

// replaced is a judge with another way to judge.
type replaced struct {
	judge
	by func(ctx context.Context, asks []engine.Ask, judgments []engine.Judgment)
}

// judge is an [engine.Judge] under a name that is not that of its method, so that it can be embedded.
type judge interface{ engine.Judge }

func (j replaced) Judge(ctx context.Context, asks []engine.Ask, judgments []engine.Judgment) {
	j.by(ctx, asks, judgments)
}

// preceded is a judge with something that comes before each judgment.
func preceded(j engine.Judge, first func(context.Context)) engine.Judge {
	return replaced{j, func(ctx context.Context, asks []engine.Ask, judgments []engine.Judgment) {
		first(ctx)
		j.Judge(ctx, asks, judgments)
	}}
}

// TestShutdown: a request in flight is answered, and new ones are not taken. A client that watches its health or keeps
// reflection open gets the end of its stream, and does not hold up the server's. Nothing is left running.
func TestShutdown(t *testing.T) {
	before := runtime.NumGoroutine()
	entered, leave := make(chan struct{}, 1), make(chan struct{})
	b := newBench(t, specYAML, func(c *Config) {
		c.Judge = preceded(c.Judge, func(context.Context) { entered <- struct{}{}; <-leave })
	})
	conn := dial(t, b.serve())
	watch := fatal.Get(healthpb.NewHealthClient(conn).Watch(patient(t), &healthpb.HealthCheckRequest{}))(t)
	next := func(want healthpb.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if r, err := watch.Recv(); err != nil || r.Status != want {
			t.Fatalf("health: %v, %v; want %v", r, err, want)
		}
	}
	next(healthpb.HealthCheckResponse_SERVING)
	idle := fatal.Get(reflectpb.NewServerReflectionClient(conn).ServerReflectionInfo(patient(t)))(t)
	fatal.If(t, idle.Send(&reflectpb.ServerReflectionRequest{MessageRequest: &reflectpb.ServerReflectionRequest_ListServices{}}))
	fatal.Get(idle.Recv())(t)
	answered := make(chan error, 1)
	go func() {
		r, err := rlspb.NewRateLimitServiceClient(conn).ShouldRateLimit(patient(t), request(of("user", "a")))
		if err == nil && inShort(r) != "OK: OK 4" {
			err = errors.New(inShort(r))
		}
		answered <- err
	}()
	<-entered
	b.Drain()
	next(healthpb.HealthCheckResponse_NOT_SERVING)
	down := make(chan error, 1)
	go func() { down <- b.Shut(30 * time.Second) }()
	for name, receive := range map[string]func() error{
		"health":     func() error { _, err := watch.Recv(); return err },
		"reflection": func() error { _, err := idle.Recv(); return err },
	} {
		if err := receive(); status.Code(err) != codes.Unavailable {
			t.Errorf("%s ends with %v", name, err)
		}
	}
	select {
	case err := <-down:
		t.Fatalf("down while a request is in flight: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	close(leave)
	fatal.If(t, errors.Join(<-answered, <-down, conn.Close()))
	proc.Eventually(t, time.Minute, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before })
}

// TestDeadline: of the caller's time a part is kept for the way back.
func TestDeadline(t *testing.T) {
	var given time.Duration
	b := newBench(t, specYAML, func(c *Config) {
		c.Budget = time.Minute
		c.Judge = preceded(c.Judge, func(ctx context.Context) {
			ends, _ := ctx.Deadline()
			given = time.Until(ends)
		})
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
		fatal.Get(b.ShouldRateLimit(ctx, request(of("user", "a"))))(t)
		cancel()
		if given > most || deadline == 0 && given < most/2 {
			t.Errorf("the store has %v of %v, want at most %v", given, deadline, most)
		}
	}
}

// A request is traced if its client has sampled it, by the traceparent of its metadata.
func TestTrace(t *testing.T) {
	out := tracetest.NewInMemoryExporter()
	b := newBench(t, specYAML, func(c *Config) { c.Tracer = telemetry.NewTracer(sdk.NewTracerProvider(sdk.WithSyncer(out))) })
	client := rlspb.NewRateLimitServiceClient(dial(t, b.serve()))
	const id = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-0"
	for _, parents := range [][]string{nil, {id + "0"}, {id + "1", id + "1"}, {id + "1"}} {
		ctx := metadata.NewOutgoingContext(patient(t), metadata.MD{"traceparent": parents})
		fatal.Get(client.ShouldRateLimit(ctx, request(of("user", "a"))))(t)
	}
	spans := out.GetSpans()
	if len(spans) != 1 || spans[0].Parent.SpanID().String() != id[36:52] || spans[0].Name != "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit" {
		t.Fatalf("%+v", spans)
	}
	tags := map[string]string{}
	for _, a := range spans[0].Attributes {
		tags[string(a.Key)] = a.Value.String()
	}
	if tags["weir.outcome"] != "ok" && tags["weir.outcome"] != "over_limit" || tags["weir.domain"] == "" {
		t.Errorf("%v", tags)
	}
}
