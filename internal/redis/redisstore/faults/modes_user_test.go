package faults

import (
	"context"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/internal/redis/redisstore"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// The user of weir.acl may do what the store needs, and the store needs all of it:
// through everything that happens to a cluster no command is refused, and none
// that is allowed goes unused.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2, 0, redistest.Users(usersOf(t, secret)...))
	for _, n := range c.Nodes {
		n.Do("CONFIG", "RESETSTAT")
	}
	ctx, stop := context.WithCancel(t.Context())
	s, err := redisstore.New(redisstore.Config{Redis: topology.Config{Addrs: c.Addrs(), Username: "weir", Password: always(secret), Timeout: 10 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	if err := s.Ready(ctx); err != nil {
		t.Fatal(err)
	}

	if err := s.Reports().Put(ctx, []live.Note{{ID: "a", For: time.Millisecond}, {ID: "b", For: time.Minute}}); err != nil {
		t.Error(err)
	}
	eventually(t, "the note that ends is dropped", func() bool {
		notes, _, err := s.Reports().All(ctx)
		return err == nil && len(notes) == 1
	})
	askAround(ctx, t, s)
	for _, n := range c.Nodes {
		n.Do("SCRIPT", "FLUSH")
	}
	askAround(ctx, t, s)
	moving := exactly("moving", limit.Spec{Algorithm: limit.FixedWindow, Count: 40, Period: limit.Day})
	slot := redistest.HashSlot("weir:{moving:k}")
	to := c.Nodes[0]
	if to == c.OwnerOf(slot) {
		to = c.Nodes[1]
	}
	c.Migrate(slot, to, func(string) {
		if got := takeOne(ctx, s, moving, "k"); got != lease.OK {
			t.Errorf("on the move: %v", got)
		}
	})
	eventually(t, "two heartbeats", func() bool { return c.Commands("zadd").Calls >= 2 })
	for _, n := range c.Nodes {
		n.Do("CONFIG", "SET", "maxmemory", "1")
	}
	askAround(ctx, t, s) // with no memory left: known keys are counted on
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}

	for _, n := range c.Nodes {
		if refused := n.Refusals(); len(refused) > 0 {
			t.Errorf("%s refused %q", n.Addr, refused)
		}
	}
	for _, allowed := range regexp.MustCompile(` \+(\S+)`).FindAllStringSubmatch(usersOf(t, secret)[0], -1) {
		if c.Commands(allowed[1]).Calls == 0 {
			t.Errorf("weir.acl allows %s, which nobody needs", allowed[1])
		}
	}
}

// askAround asks for all that there is to ask, of every algorithm.
func askAround(ctx context.Context, t *testing.T, s engine.Store) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	specs := []limit.Spec{
		{Algorithm: limit.TokenBucket, Count: 20, Period: limit.Second},
		{Algorithm: limit.FixedWindow, Count: 20, Period: limit.Second},
		{Algorithm: limit.SlidingWindow, Count: 20, Period: limit.Second},
		{Algorithm: limit.SlidingLog, Count: 20, Period: 100 * limit.Millisecond},
	}
	for range 400 {
		var asks []engine.Ask
		for i, spec := range specs {
			p := exactly("around", spec)
			w := lease.Want{Need: random.Int64N(3)}
			w.Waiting, w.Want = w.Need, w.Need
			asks = append(asks, engine.Ask{Policy: p, Key: []byte{'a' + byte(i%3)}, Want: w})
		}
		slots := exactly("slots", limit.Spec{Algorithm: limit.Concurrency, Count: 5})
		for _, op := range []engine.Op{engine.Take, engine.Renew, engine.Release} {
			asks = append(asks, engine.Ask{Policy: slots, Key: []byte{'a' + byte(random.IntN(3))}, Op: op,
				Holder: 1 + random.Uint64N(9), Want: lease.Want{Need: 1, Waiting: 1, Want: 1}})
		}
		s.Acquire(ctx, asks, make([]lease.Grant, len(asks)))
	}
}

// What README.md asks operators to load is what was tested.
func TestManualQuotesUser(t *testing.T) {
	manual, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range usersOf(t, "PASSWORD") {
		if !strings.Contains(string(manual), line) {
			t.Errorf("README.md does not have this line of weir.acl:\n%s", line)
		}
	}
}
