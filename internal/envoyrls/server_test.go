package envoyrls

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/envoyrls/binding"
	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
)

// bench is a server over a memory store with a clock of its own.
type bench struct {
	*Server
	t       testing.TB
	clock   atomic.Int64 // Unix time in µs
	store   *deaf
	service *service.Service
	metrics *telemetry.Registry
}

// deaf is a store that may not answer for some keys.
type deaf struct {
	engine.Store
	to []string
}

func (d *deaf) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	d.Store.Acquire(ctx, asks, grants)
	for i := range asks {
		if slices.Contains(d.to, string(asks[i].Key)) {
			grants[i] = lease.Grant{Status: lease.Unavailable}
		}
	}
}

func newBench(t testing.TB, yaml string, change ...func(*Config)) *bench {
	t.Helper()
	b := &bench{t: t, metrics: telemetry.NewRegistry("test")}
	b.clock.Store(int64(20_000*limit.Day + limit.Hour/2))
	now := func() limit.Micros { return limit.Micros(b.clock.Load()) }
	b.store = &deaf{Store: memory.New(memory.Config{MaxKeys: 10_000, MaxBytes: 1 << 30, Now: now})}
	b.service = service.NewService(service.Config{Store: b.store, Now: now})
	cfg := Config{
		Judge:    engine.NewJudge(b.store, nil, nil, b.metrics, nil),
		Rules:    b.service,
		Limits:   Limits{Consistency: "exact"},
		Endpoint: Endpoint{Budget: 100 * time.Millisecond},
		Metrics:  b.metrics,
		Log:      slog.New(slog.DiscardHandler),
		Now:      func() time.Time { return time.UnixMicro(b.clock.Load()) },
	}
	for _, f := range change {
		f(&cfg)
	}
	b.Server = fatal.Get(New(cfg))(t)
	t.Cleanup(func() { fatal.If(t, b.Shut(time.Minute)) })
	if yaml != "" {
		b.configure(yaml)
	}
	return b
}

func (b *bench) configure(yaml string) {
	b.t.Helper()
	b.SetConfig(fatal.Get(descriptor.Parse([]descriptor.File{{Name: "f.yaml", Data: []byte(yaml)}}, descriptor.Options{}))(b.t))
}

// setRules puts rules of the rules file in force.
func (b *bench) setRules(text string) {
	b.t.Helper()
	fatal.If(b.t, b.service.SetRules(fatal.Get(rulefile.Parse("rules.yaml", []byte(text)))(b.t)))
	b.RulesChanged()
}

func (b *bench) bindTo(rules, bindings string) error {
	b.t.Helper()
	b.setRules(rules)
	return b.SetBindings(fatal.Get(binding.Parse("bindings.yaml", []byte(bindings)))(b.t))
}

func (b *bench) advance(d limit.Micros) { b.clock.Add(int64(d)) }

// ask sends a request whose answer is no error.
func (b *bench) ask(r *rlspb.RateLimitRequest) *rlspb.RateLimitResponse {
	b.t.Helper()
	response := fatal.Get(b.ShouldRateLimit(b.t.Context(), r))(b.t)
	if len(response.Statuses) != len(r.Descriptors) {
		b.t.Fatalf("%d statuses for %d descriptors", len(response.Statuses), len(r.Descriptors))
	}
	return response
}

// scrape is what /metrics has.
func (b *bench) scrape() string { return measure.Page(b.metrics.Handler()) }

// metric reports whether /metrics has this line.
func (b *bench) metric(line string) bool { return strings.Contains(b.scrape(), "\n"+line+"\n") }

// has demands lines of /metrics.
func (b *bench) has(lines ...string) {
	b.t.Helper()
	measure.Has(b.t, b.metrics.Handler(), lines...)
}

// request is one of domain d.
func request(descriptors ...*ratelimitpb.RateLimitDescriptor) *rlspb.RateLimitRequest {
	return &rlspb.RateLimitRequest{Domain: "d", Descriptors: descriptors}
}

// of is the descriptor of keys and values in turn.
func of(pairs ...string) *ratelimitpb.RateLimitDescriptor {
	d := &ratelimitpb.RateLimitDescriptor{}
	for i := 0; i < len(pairs); i += 2 {
		d.Entries = append(d.Entries, &ratelimitpb.RateLimitDescriptor_Entry{Key: pairs[i], Value: pairs[i+1]})
	}
	return d
}

// costing gives a descriptor its own hits_addend.
func costing(hits uint64, d *ratelimitpb.RateLimitDescriptor) *ratelimitpb.RateLimitDescriptor {
	d.HitsAddend = wrapperspb.UInt64(hits)
	return d
}

// limited gives a descriptor its own limit.
func limited(n uint32, unit typepb.RateLimitUnit, d *ratelimitpb.RateLimitDescriptor) *ratelimitpb.RateLimitDescriptor {
	d.Limit = &ratelimitpb.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit}
	return d
}

// inShort is a response in short: the overall code, then for each status its code and
// what remains, or "-" where no limit is named: "OK: OK 4, OVER 0, OK -".
func inShort(r *rlspb.RateLimitResponse) string {
	short := func(c rlspb.RateLimitResponse_Code) string { return strings.TrimSuffix(c.String(), "_LIMIT") }
	parts := make([]string, len(r.Statuses))
	for i, s := range r.Statuses {
		parts[i] = short(s.Code) + " -"
		if s.CurrentLimit != nil || s.LimitRemaining > 0 {
			parts[i] = short(s.Code) + " " + fmt.Sprint(s.LimitRemaining)
		}
	}
	return short(r.OverallCode) + ": " + strings.Join(parts, ", ")
}
