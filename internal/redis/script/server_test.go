package script_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/script"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// server is a Redis with every script loaded, and a client of it.
type server struct {
	*redistest.Server
	client *redis.Client
}

func start(t testing.TB, args ...string) *server {
	t.Helper()
	s := &server{Server: redistest.Start(t, redistest.Args(args...))}
	s.client = redis.NewClient(&redis.Options{Addr: s.Addr, Protocol: 2, MaxRetries: -1, DisableIdentity: true})
	t.Cleanup(func() { _ = s.client.Close() })
	for _, sc := range script.All() {
		sha, err := s.client.ScriptLoad(t.Context(), sc.Source).Result()
		if err != nil {
			t.Fatalf("%s: %v", sc.Name, err)
		}
		if sha != sc.SHA {
			t.Fatalf("%s: the server has SHA %s, the package %s", sc.Name, sha, sc.SHA)
		}
	}
	return s
}

// call is an ask that is to be answered in one pipeline with others.
type call struct {
	ask  engine.Ask
	mode script.Mode
	now  limit.Micros
}

func (c *call) args() []any {
	key := string(script.AppendKey(nil, c.ask.Policy, c.ask.Key))
	args := []any{"EVALSHA", script.For(c.ask.Policy.Limit).SHA, 1, key, string(script.AppendArgs(nil, &c.ask, c.mode, c.now))}
	if c.ask.Policy.Limit.Blocks() {
		args[2] = 2
		args = append(slices.Insert(args, 4, any(string(script.AppendBlockKey(nil, &c.ask, c.ask.Key)))), string(script.AppendBlockArgs(nil, &c.ask)))
	}
	return args
}

// answer is what came of a call, and how long its key then had to live, in ms: -2 there was none, -1 for ever.
type answer struct {
	grant lease.Grant
	fits  bool
	ttl   int64
}

// play sends calls in one pipeline, so that no time passes that counts.
func (s *server) play(t rapid.TB, calls []call) []answer {
	t.Helper()
	pipe := s.client.Pipeline()
	var replies []*redis.Cmd
	for i := range calls {
		args := calls[i].args()
		replies = append(replies, pipe.Do(ctx, args...), pipe.Do(ctx, "PTTL", args[3]))
	}
	_, _ = pipe.Exec(ctx) // each reply has its error
	answers := make([]answer, len(calls))
	for i := range calls {
		a := &answers[i]
		reply, err := replies[2*i].Text()
		if err != nil {
			t.Fatalf("call %d, %+v: %v", i, calls[i].ask, err)
		}
		if a.grant, a.fits, err = script.Parse(reply, &calls[i].ask, calls[i].mode); err != nil {
			t.Fatalf("call %d, %+v: %v", i, calls[i].ask, err)
		}
		if a.ttl, err = replies[2*i+1].Int64(); err != nil {
			t.Fatalf("PTTL: %v", err)
		}
	}
	return answers
}

// TestClocksApart: the script chooses the window by the clock of the server, and does not where that is more than a
// window away from the clock of the caller.
func TestClocksApart(t *testing.T) {
	s := start(t)
	for _, c := range calendars(t) {
		p := policy(limit.Spec{Algorithm: limit.FixedWindow, Count: 10, Period: c.Per.Period(), Calendar: c}, lease.Leased, 100)
		key := newKey()
		name := string(script.AppendKey(nil, p, key))
		at := limit.Micros(time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC).UnixMicro())
		begins := c.Windows.Around(at)
		ask := engine.Ask{Policy: p, Key: key, Want: lease.Want{Need: 3, Waiting: 3, Want: 3, Fresh: true}}
		var w twin
		for _, now := range []limit.Micros{begins[0], begins[1] - 1, begins[1], begins[2] - 1, begins[2], begins[3] - 1, begins[0], begins[0] - 1, begins[3]} {
			args := script.AppendArgs(nil, &ask, script.Acquire, at) // by a caller whose clock shows at
			for i := range 7 {
				args[i] = byte(now >> (8 * i))
			}
			text := fatal.Get(s.client.Do(ctx, "EVALSHA", script.For(p.Limit).SHA, 1, name, string(args)).Text())(t)
			g, _, err := script.Parse(text, &ask, script.Acquire)
			if now < begins[0] || now >= begins[3] {
				if g.Status != lease.Unavailable || err == nil || errors.Is(err, script.ErrForeign) {
					t.Errorf("%s in %s, %d µs from the caller's clock: %+v, %v", c.Per, c.Zone, now-at, g, err)
				}
				continue
			}
			want, _ := w.apply(&call{ask: ask, now: now})
			if g != want || err != nil {
				t.Errorf("%s in %s, %d µs from the caller's clock:\n got %+v, %v\nwant %+v", c.Per, c.Zone, now-at, g, err, want)
			}
		}
	}
}

// By the server's own clock the end of the day is the one that the zone's clock has.
func TestCalendarByTheServersClock(t *testing.T) {
	s := start(t)
	c := calendars(t)[0]
	p := policy(limit.Spec{Algorithm: limit.FixedWindow, Count: 10, Period: c.Per.Period(), Calendar: c}, lease.Leased, 100)
	ask := engine.Ask{Policy: p, Key: newKey(), Want: lease.Want{Need: 1, Waiting: 1, Want: 1}}
	before := limit.Micros(time.Now().UnixMicro())
	got := s.play(t, []call{{ask: ask}})[0].grant
	after := limit.Micros(time.Now().UnixMicro())
	begins := c.Windows.Around(before)
	if after >= begins[2] {
		t.Skip("midnight passed")
	}
	if id := p.Limit.PeriodID(begins[1]); got.Granted != 1 || got.Lease != id || got.Reset > lease.CeilMillis(begins[2]-before) || got.Reset < lease.CeilMillis(begins[2]-after) {
		t.Errorf("%+v, want lease %d and the end of the day in %d ms", got, id, (begins[2]-after)/limit.Millisecond)
	}
}

// A debt is remembered beside its counter, for longer where it is a failure's.
func TestDebtKeys(t *testing.T) {
	s := start(t)
	for a := limit.TokenBucket; a < limit.Concurrency; a++ {
		for consistency, lasts := range map[lease.Consistency]time.Duration{lease.Leased: 10 * time.Minute, lease.Optimistic: 30 * time.Second} {
			p, key := policy(limit.Spec{Algorithm: a, Count: 100, Period: 300 * limit.Day}, consistency, 100), newKey()
			ask := engine.Ask{Policy: p, Key: key, Want: lease.Want{Overdrawn: 40, Debt: 0xabc}}
			counter, debt := string(script.AppendKey(nil, p, key)), string(script.AppendDebtKey(nil, &ask, key))
			if debt != counter+".dabc" {
				t.Errorf("the debt of %s is %s", counter, debt)
			}
			for range 3 {
				reply, err := s.client.Do(ctx, "EVALSHA", script.For(p.Limit).SHA, 2, counter, debt, string(script.AppendArgs(nil, &ask, script.Acquire, 0))).Text()
				fatal.If(t, err)
				if g, _, err := script.Parse(reply, &ask, script.Acquire); err != nil || g.Remaining != 60 {
					t.Errorf("%s: %+v, %v, want 60 left", script.For(p.Limit).Name, g, err)
				}
			}
			if ttl := s.client.PTTL(ctx, debt).Val(); ttl > lasts || ttl < lasts-10*time.Second {
				t.Errorf("%s, consistency %d: a debt is remembered for %v, want %v", script.For(p.Limit).Name, consistency, ttl, lasts)
			}
			ask.Want.Debt = 0
			if name := script.AppendDebtKey(nil, &ask, key); name != nil {
				t.Errorf("a debt without a number has the name %s", name)
			}
		}
	}
}
