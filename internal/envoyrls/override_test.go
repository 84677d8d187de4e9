package envoyrls

import (
	"math/rand/v2"
	"testing"
	"time"

	ratelimitpb "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	typepb "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/weirlimit/weir/internal/lease"
)

func perDay(n uint32, d *ratelimitpb.RateLimitDescriptor) *ratelimitpb.RateLimitDescriptor {
	return limited(n, typepb.RateLimitUnit_DAY, d)
}

// exactly and leased are how a server may be run.
func exactly(c *Config) { c.Consistency = lease.Exact.String() }
func leased(c *Config)  { c.Consistency = lease.Leased.String() }

// A limit in a request judges the same count as the rule's own with the same window; it
// does not change the answers to others.
func TestLimitsJudgeOneCount(t *testing.T) {
	dozen := func() *ratelimitpb.RateLimitDescriptor { return of("dozen", "a") }
	nobody := func() *ratelimitpb.RateLimitDescriptor { return of("nobody", "a") }
	for name, list := range map[string]steps{
		"without a rule too": {
			{request(perDay(2, nobody())), "OK: OK 1"},
			{request(perDay(2, nobody())), "OK: OK 0"},
			{request(perDay(2, nobody())), "OVER: OVER 0"},
			{request(perDay(5, nobody())), "OK: OK 2"},
			{request(perDay(2, nobody())), "OVER: OVER 0"},
			{request(perDay(5, nobody())), "OK: OK 1"},
			{request(perDay(9, nobody())), "OK: OK 4"},
			{request(perDay(5, nobody())), "OVER: OVER 0"},
			{request(perDay(9, nobody())), "OK: OK 3"},
		},
		"of another window it is another count": {
			{request(dozen()), "OK: OK 11"},
			{request(limited(3, typepb.RateLimitUnit_HOUR, dozen())), "OK: OK 2"},
			{request(dozen()), "OK: OK 10"},
		},
		"beside others": {
			{request(perDay(2, dozen()), of("one", "a")), "OK: OK 1, OK 0"},
			{request(perDay(2, dozen()), of("one", "a")), "OVER: OK 1, OVER 0"},
			{request(perDay(2, dozen()), of("five", "a")), "OK: OK 0, OK 4"},
			{request(perDay(2, dozen()), of("one", "b")), "OVER: OVER 0, OK 1"},
			{request(of("five", "a"), perDay(3, dozen())), "OK: OK 3, OK 0"},
			{request(dozen(), of("one", "b")), "OK: OK 8, OK 0"},
		},
	} {
		t.Run(name, func(t *testing.T) { bothWays(t, list) })
	}
}

// Whatever limits requests bring, in whatever order, each is judged by its own, and what is on
// lease is not lost to a limit that hands out less.
func TestAnyLimitsJudgeOneCount(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		for _, mode := range []func(*Config){leased, exactly} {
			random := rand.New(rand.NewPCG(seed, 2))
			pause := []time.Duration{20 * time.Millisecond, 100 * time.Millisecond}[seed%2]
			cached(t, func(t *testing.T, b *cachedBench) {
				for used, step := uint32(0), 0; step < 100; step++ {
					time.Sleep(time.Duration(random.ExpFloat64() * float64(pause)))
					cost := uint32(random.IntN(5)) // 0 is a check
					count, d := uint32(100), costing(uint64(cost), of("hundred", "a"))
					if random.IntN(2) == 0 {
						count = []uint32{1, 2, 10, 30, 60, 100, 130, 1000}[random.IntN(8)]
						perDay(count, d)
					}
					want := "OVER: OVER 0"
					if used+max(cost, 1) <= count {
						used += cost
						want = "OK: OK " + strconvU(count-used)
					}
					if got := inShort(b.ask(request(d))); got != want {
						t.Fatalf("seed %d, step %d, limit %d, cost %d: %s, want %s", seed, step, count, cost, got, want)
					}
				}
			}, mode)
		}
	}
}

// A flood of requests that their own limit refuses costs the store little, and those without one nothing.
func TestFloodOfRefusedLimits(t *testing.T) {
	for _, mode := range []func(*Config){leased, exactly} {
		cached(t, func(t *testing.T, b *cachedBench) {
			for range 5 {
				b.ask(request(of("dozen", "a")))
			}
			for second := range uint32(5) {
				before := b.far.asked()
				for i := range 500 {
					if got := inShort(b.ask(request(perDay(uint32(2+i%3), of("dozen", "a"))))); got != "OVER: OVER 0" {
						t.Fatalf("a limit that is spent: %s", got)
					}
					time.Sleep(2 * time.Millisecond)
				}
				if asks := b.far.asked() - before; asks > 3*11 {
					t.Errorf("%d asks for 500 requests in a second that three limits refuse", asks)
				}
				if got, want := inShort(b.ask(request(of("dozen", "a")))), "OK: OK "+strconvU(6-second); got != want {
					t.Errorf("without a limit: %s, want %s", got, want)
				}
			}
		}, mode)
	}
}

// What is refused counts for all, where that is charged.
func TestRefusedLimitsAreCharged(t *testing.T) {
	dozen := func() *ratelimitpb.RateLimitDescriptor { return of("dozen", "a") }
	bothWays(t, steps{
		{request(costing(5, dozen())), "OK: OK 7"},
		{request(perDay(5, dozen())), "OVER: OVER 0"}, // 6
		{request(perDay(5, dozen())), "OVER: OVER 0"}, // 7
		{request(dozen()), "OK: OK 4"},
		{request(perDay(5, dozen())), "OVER: OVER 0"}, // 9
		{request(dozen()), "OK: OK 2"},
		{request(costing(5, dozen())), "OVER: OVER 0"}, // 15
		{request(perDay(20, dozen())), "OK: OK 4"},
		{request(dozen()), "OVER: OVER 0"}, // 17
		{request(perDay(20, dozen())), "OK: OK 2"},
	}, charging)
}

// What a request with a limit got comes back when another descriptor refuses it, also after
// requests without a limit were given back as much.
func TestLimitGivesBack(t *testing.T) {
	list := steps{
		{request(costing(5, of("dozen", "a")), costing(2, of("one", "a"))), "OVER: OK 12, OVER 0"},
		{request(of("one", "c")), "OK: OK 0"},
	}
	for range 4 { // the check is outside of the group: what the other got is given back
		list = append(list, steps{
			{request(costing(3, of("dozen", "a")), costing(0, of("one", "c"))), "OVER: OK 12, OVER 0"},
			{request(costing(3, perDay(6, of("dozen", "a"))), costing(0, of("one", "c"))), "OVER: OK 6, OVER 0"},
		}...)
	}
	trace(t, append(list, steps{{request(costing(6, perDay(6, of("dozen", "a")))), "OK: OK 0"}}...), leased)
}
