package script_test

import (
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/script"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// A debt is remembered beside its counter, for longer where it is a failure's.
func TestDebtKeys(t *testing.T) {
	s := start(t)
	for a := limit.TokenBucket; a < limit.Concurrency; a++ {
		for consistency, lasts := range map[lease.Consistency]time.Duration{lease.Leased: 10 * time.Minute, lease.Optimistic: 30 * time.Second} {
			p, key := policy(limit.Spec{Algorithm: a, Count: 100, Period: limit.Hour}, consistency, 100), newKey()
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
