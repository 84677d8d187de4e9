package redisstore

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// The user of weir.acl may do what the store needs, and the store needs all of it: through everything that happens to a
// cluster no command is rejected, and none that is allowed goes unused.
func TestLeastRights(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 2, 0, redistest.Users(usersOf(t, secret)...))
	used := map[string]bool{}
	use := func(words ...string) {
		for _, w := range words {
			used[w] = used[w] || c.Calls(w) > 0
		}
	}
	t.Run("until it ends", func(t *testing.T) {
		s := start(t, Config{Redis: topology.Config{Addrs: c.Addrs(), Username: "weir", Password: always(secret), Timeout: 10 * time.Second}})
		for _, n := range c.Nodes { // the probe calls everything; what else calls it is to be seen
			proc.Eventually(t, 30*time.Second, "every node is probed", func() bool { return ran(n) > 0 })
		}
		use("script|load", "cluster|slots", "cluster|info", "info")
		onEach(c.Nodes, "CONFIG", "RESETSTAT")

		fatal.If(t, s.Reports().Put(t.Context(), []live.Note{{ID: "a", For: time.Millisecond}, {ID: "b", For: time.Minute}}))
		proc.Eventually(t, 30*time.Second, "the note that ends is dropped", func() bool {
			notes, _, err := s.Reports().All(t.Context())
			return err == nil && len(notes) == 1
		})
		askAround(t, s)
		onEach(c.Nodes, "SCRIPT", "FLUSH")
		askAround(t, s)
		moving := fixedPolicy(t, "moving", 40)
		slot, _, to := journey(c, nameOf(moving, "k"))
		c.Migrate(slot, to, func(string) {
			decides(t, s, moving, "k", lease.OK)
		})
		proc.Eventually(t, 30*time.Second, "two heartbeats", func() bool { return c.Calls("zadd") >= 2 })
		onEach(c.Nodes, "CONFIG", "SET", "maxmemory", "1")
		askAround(t, s) // with no memory left: known keys are counted on
	})
	for _, n := range c.Nodes {
		if rejected := n.Rejections(); len(rejected) > 0 {
			t.Errorf("%s rejected %q", n.Addr, rejected)
		}
	}
	for _, right := range rightsOf(t) {
		if use(right); !used[right] {
			t.Errorf("weir.acl allows %s, which nobody needs", right)
		}
	}
}

// rightsOf are the commands that weir.acl allows.
func rightsOf(t *testing.T) (rights []string) {
	for _, allowed := range regexp.MustCompile(` \+(\S+)`).FindAllStringSubmatch(usersOf(t, secret)[0], -1) {
		rights = append(rights, allowed[1])
	}
	return rights
}

// A store whose user lacks any right of weir.acl is not ready, and names the right. Without info only
// the metrics of the memory are missing.
func TestEachRightIsNeeded(t *testing.T) {
	t.Parallel()
	var words, users []string
	for i, right := range append(rightsOf(t), "") {
		user := strings.Replace(usersOf(t, secret)[0]+" ", "user weir ", fmt.Sprint("user weir", i, " "), 1)
		words, users = append(words, right), append(users, strings.Replace(user, " +"+right+" ", " ", 1))
	}
	words = append(words, "key") // that it may use
	users = append(users, fmt.Sprint("user weir", len(users), " on >", secret, " ~other:* +@all"))
	c := redistest.StartCluster(t, 1, 0, redistest.Users(users...))
	for i, word := range words {
		t.Run(word, func(t *testing.T) {
			t.Parallel()
			s := launch(t, Config{Redis: topology.Config{Addrs: c.Addrs(), Mode: topology.Cluster, Timeout: 10 * time.Second,
				Username: fmt.Sprint("weir", i), Password: always(secret)}})
			proc.Eventually(t, 30*time.Second, "Ready says so", func() bool {
				got := ""
				if err := notReady(t, s); err != nil {
					got = strings.ToLower(err.Error())
				}
				if word == "" || word == "info" {
					return got == ""
				}
				if got == "" {
					t.Fatal("the store is ready")
				}
				return (strings.Contains(got, "cannot call "+word+" in") || strings.Contains(got, "'"+word+"'") || word == "key" && strings.Contains(got, "to access")) &&
					strings.Contains(got, "weir.acl") && strings.Contains(got, "docs/redis.md#acl-user")
			})
			if n := s.topology.At(topology.SlotOf(replicasKey)); n != nil { // a heartbeat may come before the probe
				_ = n.Client().Eval(t.Context(), aliveScript, []string{replicasKey}, 1000, "r").Err()
			}
			for _, key := range c.Nodes[0].Do("KEYS", "*").([]any) {
				if c.Nodes[0].Do("PTTL", key) == int64(-1) {
					t.Errorf("%v stays for ever", key)
				}
			}
		})
	}
}

// askAround asks for all that there is to ask, of every algorithm.
func askAround(t *testing.T, s *Store) {
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
			p := policyOf(t, "around", spec)
			w := lease.Want{Need: random.Int64N(3)}
			w.Waiting, w.Want = w.Need, w.Need
			asks = append(asks, engine.Ask{Policy: p, Key: []byte{'a' + byte(i%3)}, Want: w})
		}
		slots := policyOf(t, "slots", limit.Spec{Algorithm: limit.Concurrency, Count: 5})
		for _, op := range []engine.Op{engine.Take, engine.Renew, engine.Release} {
			asks = append(asks, engine.Ask{Policy: slots, Key: []byte{'a' + byte(random.IntN(3))}, Op: op,
				Holder: 1 + random.Uint64N(9), Want: lease.Want{Need: 1, Waiting: 1, Want: 1}})
		}
		s.Acquire(t.Context(), asks, make([]lease.Grant, len(asks)))
	}
}
