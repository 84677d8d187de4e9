package script_test

import (
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redisstore/script"
)

// Names under which units came back are kept beside their counter for two minutes. They identify
// a copy that comes within one, also beside a debt.
func TestReturnsKeys(t *testing.T) {
	s := start(t)
	for a := limit.TokenBucket; a < limit.Concurrency; a++ {
		p, key := policy(limit.Spec{Algorithm: a, Count: 100, Period: limit.Day}, lease.Leased, 100), newKey()
		now, name := 1_700_000_000*limit.Second, script.For(p.Limit).Name
		counter := string(script.AppendKey(nil, p, key))
		do := func(w lease.Want, names ...uint64) lease.Grant {
			ask := engine.Ask{Policy: p, Key: key, Want: w}
			args, keys := []any{"EVALSHA", script.For(p.Limit).SHA, 0, counter}, 1
			if debt := script.AppendDebtKey(nil, &ask, key); debt != nil {
				args, keys = append(args, debt), keys+1
			}
			for _, name := range names {
				ask.Returned = append(ask.Returned, lease.Returned{Name: name, Units: 10})
				ask.Want.Unused += 10
			}
			if returns := string(script.AppendReturnsKey(nil, &ask, key)); returns != "" {
				if args, keys = append(args, returns), keys+1; returns != counter+".r" {
					t.Errorf("the names of %s are in %s", counter, returns)
				}
			}
			args[2] = keys
			args = append(args, string(script.AppendArgs(nil, &ask, script.Acquire, now)), string(script.AppendReturns(nil, &ask)))
			if names == nil {
				args = args[:len(args)-1]
			}
			reply, err := s.client.Do(ctx, args...).Text()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			g, _, err := script.Parse(reply, &ask, script.Acquire)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return g
		}
		g := do(lease.Want{Need: 90, Waiting: 90, Want: 90})
		back := lease.Want{Lease: g.Lease}
		for i, step := range []struct {
			wait  limit.Micros
			names []uint64
			owed  int64
			left  int64
		}{
			{0, []uint64{1}, 0, 20},
			{limit.Second, []uint64{1}, 0, 20},
			{0, []uint64{1, 2, 1 << 63}, 0, 40},
			{0, []uint64{1 << 63, 3}, 5, 45},
			{0, []uint64{3}, 5, 45},
			{58 * limit.Second, []uint64{1, 2}, 0, 45},
			{3 * limit.Second, []uint64{4}, 0, 54},
		} {
			if step.wait == 3*limit.Second { // units go out, so that some may come back
				do(lease.Want{Need: 1, Waiting: 1, Want: 1})
			}
			now += step.wait
			back.Overdrawn, back.Debt = step.owed, uint64(step.owed)
			if g := do(back, step.names...); g.Remaining != step.left {
				t.Errorf("%s, step %d: %d are left, want %d", name, i, g.Remaining, step.left)
			}
		}
		if ttl := s.client.PTTL(ctx, counter+".r").Val(); ttl > 2*time.Minute || ttl < 110*time.Second {
			t.Errorf("%s: names are kept for %v", name, ttl)
		}
		if kept := s.client.ZCard(ctx, counter+".r").Val(); kept != 1 {
			t.Errorf("%s: %d names are kept after a minute, want the last", name, kept)
		}
	}
}

// What a server has no memory to remember does not come back, and makes no room for more.
func TestReturnsWithoutMemory(t *testing.T) {
	s := start(t)
	p, key := policy(limit.Spec{Algorithm: limit.FixedWindow, Count: 100, Period: limit.Day}, lease.Leased, 100), newKey()
	ask := engine.Ask{Policy: p, Key: key, Want: lease.Want{Need: 90, Waiting: 90, Want: 90}}
	counter := string(script.AppendKey(nil, p, key))
	reply := func(args ...any) (lease.Grant, error) {
		text, err := s.client.Do(ctx, append([]any{"EVALSHA", script.For(p.Limit).SHA}, args...)...).Text()
		if err != nil {
			t.Fatal(err)
		}
		g, _, err := script.Parse(text, &ask, script.Acquire)
		return g, err
	}
	g, err := reply(1, counter, string(script.AppendArgs(nil, &ask, script.Acquire, 0)))
	if err != nil || g.Granted != 90 {
		t.Fatal(g, err)
	}
	s.Do("CONFIG", "SET", "maxmemory", "1")
	ask.Want = lease.Want{Unused: 30, Lease: g.Lease}
	ask.Returned = []lease.Returned{{Name: 7, Units: 30}}
	returned := []any{2, counter, counter + ".r", string(script.AppendArgs(nil, &ask, script.Acquire, 0)), string(script.AppendReturns(nil, &ask))}
	if g, err := reply(returned...); err != nil || g.Remaining != 10 {
		t.Errorf("without memory: %+v, %v, want 10 left as before", g, err)
	}
	s.Do("CONFIG", "SET", "maxmemory", "0")
	if g, err := reply(returned...); err != nil || g.Remaining != 40 {
		t.Errorf("with memory: %+v, %v, want 40 left", g, err)
	}
}
