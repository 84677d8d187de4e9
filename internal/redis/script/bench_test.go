package script_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/script"
)

// BenchmarkAcquire asks for single units of 10,000 keys in pipelines of 50 and
// reports what that costs Redis: µs of its processor in all, and within EVALSHA.
func BenchmarkAcquire(b *testing.B) {
	s := start(b)
	for _, c := range []struct {
		name string
		spec limit.Spec
	}{
		{"token_bucket", limit.Spec{Count: 100, Period: limit.Minute}},
		{"fixed_window", limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: limit.Minute}},
		{"sliding_window", limit.Spec{Algorithm: limit.SlidingWindow, Count: 100, Period: limit.Minute}},
		{"sliding_log", limit.Spec{Algorithm: limit.SlidingLog, Count: 100, Period: limit.Minute}},
		{"sliding_log_long", limit.Spec{Algorithm: limit.SlidingLog, Count: 1000, Period: 2 * limit.Second}},
		{"concurrency", limit.Spec{Algorithm: limit.Concurrency, Count: 50}},
	} {
		b.Run(c.name, func(b *testing.B) { benchmark(b, s, c.spec) })
	}
}

func benchmark(b *testing.B, s *server, spec limit.Spec) {
	const keys, batch = 10_000, 50
	p := policy(spec, lease.Leased, 100)
	perKey := keys
	if spec.Count >= 1000 {
		perKey = 20 // long logs: few keys, so that they fill
	}
	calls := make([][]any, perKey)
	for i := range calls {
		a := engine.Ask{Policy: p, Key: fmt.Append(nil, "client-10.0.", i), Want: lease.Want{Need: 1, Waiting: 1, Want: 1}}
		a.Op, a.Holder = engine.Take, uint64(i)<<32+1
		calls[i] = (&call{ask: a, mode: script.Acquire}).args()
	}
	s.Do("FLUSHALL")
	send := func(n int) {
		for i := 0; i < n; {
			pipe := s.client.Pipeline()
			for range min(batch, n-i) {
				pipe.Do(ctx, calls[i%len(calls)]...)
				i++
			}
			if _, err := pipe.Exec(ctx); err != nil {
				b.Fatal(err)
			}
		}
	}
	send(max(keys, b.N/4)) // every key is there
	s.Do("CONFIG", "RESETSTAT")
	before := s.cpu(b)
	b.ResetTimer()
	send(b.N)
	b.StopTimer()
	b.ReportMetric((s.cpu(b)-before)/float64(b.N)*1e6, "redis-µs/op")
	evalsha := s.CommandStats()["evalsha"]
	b.ReportMetric(float64(evalsha.Micros)/float64(evalsha.Calls), "evalsha-µs/op")
}

// cpu is the seconds of processor time that the server has used.
func (s *server) cpu(t testing.TB) (seconds float64) {
	info := s.Info("cpu")
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		f, err := strconv.ParseFloat(info[field], 64)
		if err != nil {
			t.Fatalf("INFO cpu has %s:%s", field, info[field])
		}
		seconds += f
	}
	return seconds
}

// BenchmarkCodecs is what an ask costs beside its way through Redis: its key, its
// argument and its reply.
func BenchmarkCodecs(b *testing.B) {
	for i, spec := range specs {
		b.Run(script.All()[i].Name, func(b *testing.B) {
			a := askOf(spec, "client-10.0.0.1", 1)
			reply := "\x01\x00" + string(make([]byte, 43))
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				buf = script.AppendKey(buf[:0], a.Policy, a.Key)
				buf = script.AppendArgs(buf, &a, script.Acquire, 0)
				if _, _, err := script.Parse(reply, &a, script.Acquire); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
