package redisstore

import (
	"testing"

	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/rulefile"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// An override that moves among the others keeps its counter in Redis.
func TestMovedOverride(t *testing.T) {
	s := start(t, Config{Addrs: []string{redistest.Start(t).Addr}})
	service := limiter.NewService(limiter.Config{Store: s})
	const gold, silver = `{ when: { header: { x-tier: gold } }, limit: 20/1h }`, `{ when: { header: { x-tier: silver } }, limit: 30/1h }`
	for i, c := range []struct {
		overrides string
		variant   uint32
	}{{gold, 1}, {silver + ", " + gold, 2}, {gold + ", " + silver, 1}} {
		set, err := rulefile.Parse("rules.yaml", []byte("rules: [{ name: a, key: [client_ip], limit: 10/1h, consistency: exact, overrides: ["+c.overrides+"] }]\n"))
		if err == nil {
			err = service.SetRules(set)
		}
		if err != nil {
			t.Fatal(err)
		}
		p := service.Policy("a", c.variant, nil)
		if g := acquire(t, s, plenty, one(p, "k"))[0]; g.Granted != 1 || g.Limit != 20 || g.Remaining != int64(19-i) {
			t.Errorf("step %d: %+v, want %d left of 20", i, g, 19-i)
		}
	}
	if g := acquire(t, s, plenty, one(service.Policy("a", 2, nil), "k"))[0]; g.Remaining != 29 {
		t.Errorf("silver: %+v, want a counter of its own", g)
	}
}
