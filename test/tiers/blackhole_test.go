package tiers

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/blackhole"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
)

// A region, of which everything that it calls is behind a route that swallows packets, gives each
// connection up after a while: its sockets do not add up.
func TestBlackHoles(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs in make test-long")
	}
	global, redis, consul := blackhole.New(t), blackhole.New(t), blackhole.New(t)
	r := region.New(t, region.Config{Dir: proc.LogDir(t), Rules: clockRules, Flags: []string{
		"--region", "eu", "--aggregator", global.Addr, "--redis", redis.Addr, "--consul", consul.Addr,
	}})
	r.Begin()
	// A probe each 100 ms: when so many have failed, far more were begun than may be under way.
	const failed = `weir_aggregator_calls_total{result="timed_out"}`
	proc.Await(t, 2*time.Minute, "probes of the aggregator fail", func() string {
		if status, text := r.Ready(); status == 0 {
			return text
		}
		if n := r.Metrics()[failed]; n < 80 {
			return fmt.Sprintf("%s is %v", failed, n)
		}
		return ""
	})
	for name, hole := range map[string]*blackhole.Hole{"the aggregator": global, "redis": redis, "consul": consul} {
		if n := hole.Dialling(); n > 25 {
			t.Errorf("%s: %d connections are under way", name, n)
		} else {
			t.Logf("%s: %d connections are under way", name, n)
		}
	}
}
