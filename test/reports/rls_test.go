package reports

import (
	"bytes"
	"net"
	"strings"
	"testing"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/envoyrls"
	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/limit"
)

// replicas are connections to servers of Envoy's rate limit service that share a store, whose clock stands still.
func replicas(t *testing.T, n int, limits envoyrls.Limits, yaml string) (all []*grpc.ClientConn) {
	t.Helper()
	now := func() limit.Micros { return 20_000*limit.Day + limit.Hour }
	store := memory.New(memory.Config{MaxKeys: 1000, MaxBytes: 1 << 20, Now: now})
	limits.Consistency = "leased"
	for range n {
		s, err := envoyrls.New(envoyrls.Config{Judge: engine.NewJudge(store, nil, nil, nil, nil), Limits: limits})
		if err != nil {
			t.Fatal(err)
		}
		c, err := descriptor.Parse([]descriptor.File{{Name: "f.yaml", Data: []byte("domain: d\ndescriptors:\n" + yaml)}}, descriptor.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s.SetConfig(c)
		port, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = s.Serve(port) }() // until Shutdown
		conn, err := grpc.NewClient(port.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = conn.Close()
			_ = s.Shutdown(t.Context())
		})
		all = append(all, conn)
	}
	return all
}

// bytesCodec sends a message that is bytes already.
type bytesCodec struct{ encoding.CodecV2 }

func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

// ask sends descriptors such as "user=a limit=3", with a space between entries and a limit per day of their own; Q is the
// byte \xff, and R is \xc0. It returns whether each is within its limit ("+", "-"; "." if no limit is named).
func ask(t *testing.T, conn *grpc.ClientConn, descriptors ...string) string {
	t.Helper()
	request := &rlspb.RateLimitRequest{Domain: "d"}
	for _, text := range descriptors {
		d := new(ratelimitpb.RateLimitDescriptor)
		for _, entry := range strings.Fields(text) {
			switch key, value, _ := strings.Cut(entry, "="); {
			case key == "limit":
				n := map[string]uint32{"3": 3, "100": 100}[value]
				d.Limit = &ratelimitpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: typepb.RateLimitUnit_DAY}
			default:
				d.Entries = append(d.Entries, &ratelimitpb.RateLimitDescriptor_Entry{Key: key, Value: value})
			}
		}
		request.Descriptors = append(request.Descriptors, d)
	}
	message, err := proto.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	message = bytes.ReplaceAll(bytes.ReplaceAll(message, []byte("Q"), []byte("\xff")), []byte("R"), []byte("\xc0"))
	response := new(rlspb.RateLimitResponse)
	if err := conn.Invoke(t.Context(), rlspb.RateLimitService_ShouldRateLimit_FullMethodName, message, response,
		grpc.ForceCodecV2(bytesCodec{encoding.GetCodecV2("proto")})); err != nil {
		t.Fatalf("%v: %v", descriptors, err)
	}
	said := map[bool]string{true: "+", false: "-"}[response.OverallCode == rlspb.RateLimitResponse_OK]
	for _, s := range response.Statuses {
		if s.CurrentLimit != nil {
			return said
		}
	}
	return said + "." // no rule
}

// play sends requests, such as "limit=3 user=a, b=c", to replicas in turn, and compares what becomes of them.
func play(t *testing.T, source string, all []*grpc.ClientConn, steps ...string) {
	t.Helper()
	for i, step := range steps {
		text, want, _ := strings.Cut(step, ": ")
		if got := ask(t, all[i%len(all)], strings.Split(text, ", ")...); got != want {
			t.Errorf("%s: step %d, %s: %s, want %s", source, i+1, text, got, want)
		}
	}
}

// Report 26: no byte of a header is a way around a limit.
func TestBytesOfDescriptors(t *testing.T) {
	play(t, "envoy#5141", replicas(t, 1, envoyrls.Limits{}, "- { key: user, rate_limit: { unit: minute, requests_per_unit: 1 } }"),
		"user=Q: +", "user=Q: -", "user=Q: -", "user=aR: +", "user=aR: -", "user=aQ: +", "user=a: +", "x=Q, user=Q: -")
}

// Report 28: each limit that a request brings is judged on the one count.
func TestLimitsOfRequests(t *testing.T) {
	const five = "- { key: user, rate_limit: { unit: day, requests_per_unit: 5 } }"
	play(t, "ratelimit#1077", replicas(t, 2, envoyrls.Limits{}, five),
		"user=a limit=3: +", "user=a limit=3: +", "user=a limit=3: +", "user=a limit=3: -", "user=a limit=3: -",
		"user=a limit=100: +", "user=a: +", "user=a: -", "user=a limit=100: +", "user=a limit=3: -")
	play(t, "ratelimit#1077", replicas(t, 2, envoyrls.Limits{ChargeDenied: true}, five), // the fourth counts
		"user=a limit=3: +", "user=a limit=3: +", "user=a limit=3: +", "user=a limit=3: -",
		"user=a limit=100: +", "user=a: -", "user=a limit=100: +")
}

// Report 29: a descriptor in shadow mode ends nothing.
func TestShadowOfDescriptors(t *testing.T) {
	const both = "- { key: a, shadow_mode: true, rate_limit: { unit: minute, requests_per_unit: 1 } }\n- { key: b, rate_limit: { unit: minute, requests_per_unit: 3 } }"
	for _, order := range []string{"a=x, b=x", "b=x, a=x"} {
		play(t, "envoy#46390", replicas(t, 1, envoyrls.Limits{}, both),
			order+": +", order+": +", order+": +", order+": -", order+": -", order+": -", order+": -", order+": -", order+": -", order+": -")
	}
}

// Report 30: descriptors are matched each by itself, and by pairs.
func TestDescriptorsAreNotJoined(t *testing.T) {
	const nested = "- { key: a, descriptors: [{ key: b, descriptors: [{ key: c, rate_limit: { unit: day, requests_per_unit: 1 } }] }] }"
	play(t, "limitador#62", replicas(t, 1, envoyrls.Limits{}, nested),
		"c=3, a=1 b=2: +.", "c=3, a=1 b=2: +.", "c=3, a=1 b=2: +.", "a=1 b=2 c=3: +", "a=1 b=2 c=3: -", "a=1 b=2, c=3: +.")
	const joined = "- { key: a, descriptors: [{ key: b_c, rate_limit: { unit: day, requests_per_unit: 1 } }] }"
	play(t, "limitador#62", replicas(t, 1, envoyrls.Limits{}, joined), "a= b_c=: +", "a= b_c=: -", "a_b= c=: +.", "a_b= c=: +.")
}
