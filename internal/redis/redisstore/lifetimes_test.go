package redisstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/calendar"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// TestLifetimes: whatever is asked of a counter, its key lives no longer than docs/redis.md states, and no key but the
// two records lives for ever.
func TestLifetimes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := start(t, Config{Redis: topology.Config{Addrs: []string{server.Addr}}}, func(s *Store) {
		s.CountHolders(func(time.Duration) []uint64 { return []uint64{1, 2, 3} })
	})
	most := map[string]limit.Micros{} // by rule
	for _, a := range []limit.Algorithm{limit.TokenBucket, limit.FixedWindow, limit.SlidingWindow, limit.SlidingLog} {
		for _, period := range []limit.Micros{limit.Second, limit.Minute, limit.Hour, limit.Day, 31 * limit.Day} {
			for _, penal := range []bool{false, true} {
				for _, mode := range []lease.Consistency{lease.Exact, lease.Leased, lease.Optimistic} {
					p := countedPolicy(t, limit.Spec{Algorithm: a, Count: 10, Period: period, ChargeRejected: penal}, mode)
					most[p.Rule] = longest(a, period)
					askEverything(t, s, p)
				}
			}
		}
	}
	month := limit.Calendar{Per: limit.PerMonth, Anchor: 1, Zone: "UTC"}
	month.Windows = fatal.Get(calendar.Windows(month))(t)
	monthly := countedPolicy(t, limit.Spec{Algorithm: limit.FixedWindow, Count: 10, Period: month.Per.Period(), Calendar: &month}, lease.Leased)
	most[monthly.Rule] = longest(limit.FixedWindow, 31*limit.Day)
	askEverything(t, s, monthly)
	slots := countedPolicy(t, limit.Spec{Algorithm: limit.Concurrency, Count: 3, LeaseTTL: limit.Minute}, lease.Leased)
	most[slots.Rule] = limit.Minute + limit.Second
	for id := range uint64(5) {
		for _, op := range []engine.Op{engine.Take, engine.Renew, engine.Hold} {
			acquire(t, s, plenty, engine.Ask{Policy: slots, Key: []byte("k"), Op: op, Holder: id + 1, Seq: 1, Want: lease.Want{Need: 1, Waiting: 1, Want: 2}})
		}
	}
	fatal.If(t, s.Reports().Put(t.Context(), []live.Note{{ID: "a", For: time.Hour, Text: []byte("x")}}))
	for _, cell := range []engine.Cell{s.Record("eu"), s.Shares()} {
		if _, _, err := cell.Swap(t.Context(), nil, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() (bool, any) { return server.Do("EXISTS", holdersKey) != int64(0), "no holder is counted" })
	kinds := map[string]int{}
	for _, key := range server.Do("KEYS", "*").([]any) {
		kind, bound := lifetime(key.(string), most)
		kinds[kind]++
		left := limit.Micros(server.Do("PTTL", key).(int64)) * limit.Millisecond
		switch {
		case left == -2*limit.Millisecond: // it ended meanwhile
		case bound == limit.Never && left != -limit.Millisecond, bound != limit.Never && (left < 0 || left > bound):
			t.Errorf("%s %s lives for %d s, want at most %d s", kind, key, left/limit.Second, bound/limit.Second)
		}
	}
	for _, kind := range []string{"counter", "debt", "replicas", "holders", "notes", "record"} {
		if kinds[kind] == 0 {
			t.Errorf("no key is a %s: %v", kind, kinds)
		}
	}
}

// countedPolicy is a policy whose rule is named after all of it.
func countedPolicy(t *testing.T, spec limit.Spec, mode lease.Consistency) *engine.Policy {
	p := policyOf(t, fmt.Sprintf("%v.%d.%v.%v.%v", spec.Algorithm, spec.Period, spec.ChargeRejected, spec.Calendar != nil, mode), spec)
	return engine.NewPolicy(p.Rule, 0, p.Limit, lease.NewTerms(p.Limit, mode, 0, 0, 0))
}

// longest is how long the key of a counter lives at most, by docs/redis.md.
func longest(a limit.Algorithm, period limit.Micros) limit.Micros {
	switch a {
	case limit.TokenBucket:
		return 2*period*5/4 + 5*limit.Second // twice what fills it: it may owe as much again
	case limit.FixedWindow, limit.SlidingWindow:
		return 2*period + limit.Second
	}
	return period + 10*limit.Second + limit.Second
}

// askEverything takes, is rejected, leases ahead, owes, gives back and resets.
func askEverything(t *testing.T, s *Store, p *engine.Policy) {
	t.Helper()
	for _, w := range []lease.Want{
		{Need: 1, Waiting: 1, Want: 1}, {Need: 1, Waiting: 1, Want: 8}, {Want: 5, Next: true, Fresh: true},
		{Need: 11, Waiting: 11, Want: 11}, {Need: 5, Waiting: 5, Want: 50}, {Unused: 1, Want: 1}, {Denied: 3},
		{Overdrawn: 4, Debt: 7, Denied: 1, Want: 1}, {Overdrawn: 100, Debt: 8}, {Overdrawn: 100},
	} {
		acquire(t, s, plenty, engine.Ask{Policy: p, Key: []byte("k"), Want: w})
	}
	other := engine.Ask{Policy: p, Key: []byte("r"), Want: lease.Want{Need: 2, Waiting: 2, Want: 9}}
	acquire(t, s, plenty, other)
	acquire(t, s, plenty, engine.Ask{Policy: p, Key: other.Key, Op: engine.Reset})
}

// lifetime is what a key is, and how long it lives at most.
func lifetime(key string, most map[string]limit.Micros) (kind string, bound limit.Micros) {
	switch rest, shared := strings.CutPrefix(key, replicasKey); {
	case !shared:
	case rest == "":
		return "replicas", 3500 * limit.Millisecond
	case rest == ":holders":
		return "holders", 10 * limit.Second
	case strings.HasPrefix(rest, ":live:"):
		return "notes", limit.Minute
	default:
		return "record", limit.Never
	}
	if strings.HasPrefix(key, "weir:probe:") {
		return "probe", limit.Second
	}
	rule, _, _ := strings.Cut(strings.TrimPrefix(key, "weir:{"), ":")
	if i := strings.LastIndex(key, ".d"); i > strings.IndexByte(key, '}') {
		if strings.HasSuffix(rule, fmt.Sprint(".", lease.Optimistic)) {
			return "debt", 30 * limit.Second
		}
		return "debt", 10 * limit.Minute
	}
	return "counter", most[rule]
}
