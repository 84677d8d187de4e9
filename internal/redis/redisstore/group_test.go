package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// apart are policies of so many units whose counters of a key are on nodes of their own.
func apart(t *testing.T, c *redistest.Cluster, key string, units ...int64) (policies []*engine.Policy) {
	t.Helper()
	taken := map[*redistest.Server]bool{}
	for i := 0; len(policies) < len(units); i++ {
		p := fixedPolicy(t, fmt.Sprint("rule", i), units[len(policies)])
		if n := c.MasterOf(nameOf(p, key)); !taken[n] {
			taken[n] = true
			policies = append(policies, p)
		}
	}
	return policies
}

// together makes asks one request.
func together(asks ...engine.Ask) []engine.Ask {
	for i := range asks {
		asks[i].Group = 7
	}
	return asks
}

// A race that is lost gives back: between the rounds somebody takes the last unit.
func groupGivesBack(t *testing.T, c *redistest.Cluster) {
	slow, links := linked(t, c, Config{Redis: topology.Config{Timeout: 20 * time.Second}})
	quick := onCluster(t, c, Config{})
	p := apart(t, c, "k", 10, 1)
	slots := policyOf(t, "slots", limit.Spec{Algorithm: limit.Concurrency, Count: 5})
	hold := engine.Ask{Policy: slots, Key: []byte("k"), Holder: 9, Seq: 1, Want: lease.Want{Need: 1, Waiting: 1, Want: 1}}
	var resume []func()
	for _, l := range links {
		resume = append(resume, l.hangScripts(t))
	}
	decided := make(chan []lease.Grant)
	go func() {
		decided <- acquire(t, slow, plenty, together(one(p[0], "k"), one(p[1], "k"), hold)...)
	}()
	for _, of := range []*engine.Policy{p[0], p[1], slots} {
		arrived(t, c.MasterOf(nameOf(of, "k")), nameOf(of, "k"))
	}
	decides(t, quick, p[1], "k", lease.OK)
	for _, resume := range resume {
		resume()
	}
	g := <-decided
	if g[0].Status != lease.OK || g[0].Granted != 0 || g[1].Status != lease.Denied || g[2].Status != lease.OK || g[2].Granted != 0 {
		t.Errorf("a group that lost its race: %+v", g)
	}
	if left := remaining(t, quick, p[0], "k"); left != 10 {
		t.Errorf("%d are left of 10: they were not given back", left)
	}
	hold = engine.Ask{Policy: slots, Key: []byte("k"), Holder: 10, Seq: 1, Want: lease.Want{Need: 5, Waiting: 5, Want: 5}}
	if g := acquire(t, quick, plenty, hold)[0]; g.Granted != 5 {
		t.Errorf("all slots: %+v, one is still held", g)
	}
}

// A member whose node does not answer holds up nobody: the others are decided in
// time, and charged only if all of them fit.
func groupWithAMemberAway(t *testing.T, c *redistest.Cluster) {
	s, links := linked(t, c, Config{Redis: topology.Config{Timeout: 20 * time.Second}})
	const key = "away"
	p, q := apart(t, c, key, 10, 10, 1), apart(t, c, key, 10, 10, 10)
	request := func() []lease.Grant {
		return acquire(t, s, 8*time.Second, together(one(p[0], key), one(p[1], key), one(p[2], key))...)
	}
	links[c.MasterOf(nameOf(p[0], key))].hang(t)
	if got := fmt.Sprint(granted(request())); got != "[unavailable 1 1]" {
		t.Errorf("%s, want the others granted", got)
	}
	if got := fmt.Sprint(granted(request())); got != "[unavailable 0 denied]" {
		t.Errorf("%s, want a denial that costs the other nothing", got)
	}
	if left := remaining(t, s, p[1], key); left != 9 {
		t.Errorf("%d are left of 10 after one was admitted", left)
	}
	asks := []engine.Ask{one(q[0], key), one(q[1], key), one(q[1], key), one(q[2], key), one(q[2], key)}
	for i, g := range []uint32{1, 1, 2, 2, 0} { // groups of one call do not wait for each other
		asks[i].Group = g
	}
	if got := fmt.Sprint(granted(acquire(t, s, 8*time.Second, asks...))); got != "[unavailable 1 1 1 1]" {
		t.Errorf("groups of one call: %s", got)
	}
}

func granted(grants []lease.Grant) (words []string) {
	for _, g := range grants {
		switch g.Status {
		case lease.OK:
			words = append(words, fmt.Sprint(g.Granted))
		case lease.Denied:
			words = append(words, "denied")
		default:
			words = append(words, "unavailable")
		}
	}
	return words
}
