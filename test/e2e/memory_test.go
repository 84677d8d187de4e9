package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/otlp"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// Memory is bounded, whatever clients send: one PoP and one region see it all.
//
// A new key with three of four requests fills the table of the PoP and the store of the
// region many times over. Neither grows past its bound, no request leaves anything behind,
// and a key that was spent before stays spent: only what equals a fresh counter is forgotten.
//
// The small form has a small table and a small store: 2,000 and 10,000 keys, which
// 90,000 requests overflow as often as 3 million do the real ones.
func TestMemory(t *testing.T) {
	t.Parallel()
	s := start(t, stack.Config{
		PoPs: 1, Plugin: orLong(map[string]any{"table_pages": 64}, nil), RegionConfig: orLong("max_keys: 10000\n", ""),
		Rules: "rules:\n" + rule("per-user", "limit: 5/300d, timeout: 1s, on_failure: { action: deny, status: 429 }"),
	})
	requests, rounds := orLong(int64(90_000), 3_000_000), orLong(int64(5), 20)
	p := s.PoPs[0]
	spend := func() int64 {
		return offer(t, loadOf(s, "/per-user", "spent", 200)).OK()
	}
	spends(t, 5, spend)

	var popFull, regionFull int64 // memory when both had overflowed
	for round := range rounds {
		request := func(b []byte, n int64) []byte {
			user := "spent"
			if n%4 > 0 {
				user = fmt.Sprint("round-", round, "-", n)
			}
			return fmt.Appendf(b, "GET /per-user HTTP/1.1\r\nhost: pop\r\nx-user: %s\r\n\r\n", user)
		}
		tally := offer(t, drive.Load{Addrs: s.Addrs(), Conns: 32, Count: requests / rounds, Request: request})
		t.Logf("%d requests at %.0f per second, rejected %d; PoP %d MB, region %d MB", tally.Sent(), tally.PerSecond(),
			tally.Status[429], p.Memory()>>20, s.Region.Memory()>>20)
		if n := spend(); n > 0 {
			t.Errorf("round %d: the spent key was admitted %d times", round, n)
		}
		if round == rounds/2 {
			popFull, regionFull = p.Memory(), s.Region.Memory()
		}
	}
	// Afterwards nothing may grow with the number of requests. What later rounds bring would take some 330 bytes for each
	// of 36,000, if it were kept, 12 MB; allocators and collectors keep something too, and stop.
	const slack = 12 << 20
	if pop, region := p.Memory()-popFull, s.Region.Memory()-regionFull; pop > slack || region > slack {
		t.Errorf("the PoP grew by %d MB after its table was full, and the region by %d MB", pop>>20, region>>20)
	}
	if n := s.Region.Metrics()["weir_store_keys"]; n > 1.01*orLong(10_000.0, 1_000_000) { // each shard rounds up
		t.Errorf("the region holds %v keys, more than max_keys", n)
	}
}

// With the native module, the region's span is below Envoy's span of the first request that waits, also if Envoy has begun
// the trace. It links to Envoy's spans of the other requests that wait for the same call.
func TestTraces(t *testing.T) {
	t.Parallel()
	collector := otlp.Start(t)
	s := start(t, stack.Config{PoPs: 1, Workers: 1, Links: true, RegionConfig: "otlp: http://" + collector.Addr + "\n",
		Rules: "rules: [{ name: all, key: [{ header: x-user }], limit: 1000/1d, algorithm: fixed_window, consistency: exact, timeout: 1s }]\n",
		Bootstrap: func(b *envoy.Bootstrap) {
			b.SetNative()
			b.Lay("tracing.yaml", "port_value: 4317", "port_value: "+port(collector.Addr), "numerator: 1,", "numerator: 100,")
			b.AllowRuntime()
		}})
	p := s.PoPs[0]
	p.SetRuntime("tracing.opentelemetry.min_flush_spans", "1")
	p.Link.Slow(400 * time.Millisecond)
	burst := func() { proc.Together(6, func(int) { p.Get("/", "x-user", "ann") }) }
	burst()
	const sampled, other = "0af7651916cd43dd8448eb211c80319c", "0af7651916cd43dd8448eb211c80319d"
	p.Get("/", "x-user", "eve", "traceparent", "00-"+other+"-b7ad6b7169203331-00")
	p.Get("/", "x-user", "bob", "traceparent", "00-"+sampled+"-b7ad6b7169203331-01")
	proc.Await(t, 30*time.Second, "the spans of a PoP and its region", func() string {
		ofEnvoy, linked, bobs := map[string]string{}, 0, false // the traces of Envoy's spans by the ids of these
		for _, span := range collector.Spans("") {
			if span.Service == "weir-pop" {
				ofEnvoy[span.ID] = span.Trace
			}
		}
		for _, span := range collector.Spans("") {
			if !strings.HasSuffix(span.Name, "/Acquire") {
				continue
			}
			if ofEnvoy[span.Parent] != span.Trace {
				return fmt.Sprintf("%+v is not below one of Envoy's spans", span)
			}
			bobs = bobs || span.Trace == sampled
			for _, id := range span.Links {
				if ofEnvoy[id] == "" {
					return fmt.Sprintf("%+v links to %s, which is not one of Envoy's spans", span, id)
				}
				linked++
			}
		}
		if bobs && linked == 0 { // the first call was so late that none of the others waited
			burst()
		}
		if len(ofEnvoy) < 7 || linked == 0 || !bobs {
			return fmt.Sprintf("%d of 7 spans of Envoy, %d links, the span of a client's trace: %v", len(ofEnvoy), linked, bobs)
		}
		return ""
	})
	if spans := collector.Spans(other); len(spans) > 0 {
		t.Errorf("a trace that is not sampled has spans: %+v", spans)
	}
}
