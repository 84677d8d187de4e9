package e2e

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/test/kit/cgroup"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
)

// eachRules has a rule of which each key is rejected after its first request.
const eachRules = `
rules:
  - { name: each, key: [ { header: x-user } ], limit: 1/1d, algorithm: fixed_window, scope: SCOPE }
`

// container is a program with the memory of a container, and what comes to it.
type container struct {
	limit    int64 // bytes
	keys     int64 // distinct ones, more than fit
	least    int   // keys that fit
	program  string
	redis    bool
	callers  int  // who call at once; 0: 4
	rejected bool // calls may be rejected
	flags    []string
}

// A program in the container of docker-compose.yml or of the chart gets far more distinct keys than it has room
// for, without a word about memory in its settings. It is not killed, answers every call, and has room for many keys.
func TestContainer(t *testing.T) {
	onlyLong(t)
	if !strings.Contains(shipped(t, "docker-compose.yml"), "mem_limit: 256m") {
		t.Error("docker-compose.yml has another limit than the cases below")
	}
	for name, c := range map[string]container{
		"compose":       {limit: 256 << 20, keys: 200_000, least: 90_000, redis: true},
		"without redis": {limit: 256 << 20, keys: 500_000, least: 200_000, flags: []string{"--state-interval", "1s"}},
		"many calls":    {limit: 256 << 20, keys: 400_000, least: 20_000, redis: true, callers: 500, rejected: true},
		"aggregator":    {limit: 256 << 20, keys: 200_000, least: 45_000, program: "weir-global"},
	} {
		t.Run(name, c.run)
	}
}

func (c container) run(t *testing.T) {
	group := cgroup.New(t, c.limit)
	f, scope := keyFlood{callers: cmp.Or(c.callers, 4)}, "region"
	if c.program == "weir-global" {
		f.region, scope = "eu", "global"
	}
	if c.redis {
		c.flags = append(c.flags, "--redis", redistest.StartCluster(t, 1, 0).Addrs()[0])
	}
	r := region.New(t, region.Config{Dir: proc.LogDir(t), Rules: strings.ReplaceAll(eachRules, "SCOPE", scope), Program: c.program, Flags: c.flags, Command: group.Command})
	r.Start()
	f.addr = r.Addr
	for i := range int64(4) {
		if f.run(t, (i+1)*c.keys/4); r.Exited() || group.Killed() > 0 {
			t.Fatalf("killed after %d keys, with a peak of %d MiB; answers that failed: %v", f.sent.Load(), group.Peak()>>20, f.err.Load())
		}
	}
	m := r.Metrics()
	keys := max(m["weir_lease_cache_keys"], m["weir_store_keys"])
	t.Logf("%d keys, %v of them kept; %d calls rejected; a peak of %d MiB",
		f.sent.Load(), keys, f.rejected.Load(), group.Peak()>>20)
	if got := int64(m["go_gc_gomemlimit_bytes"]); got != c.limit/100*85 {
		t.Errorf("the limit of the runtime is %d bytes, want 85 %% of %d", got, c.limit)
	}
	if n := f.rejected.Load(); n > 0 && !c.rejected {
		t.Errorf("%d calls were rejected", n)
	}
	if f.failed.Load() > 0 {
		t.Errorf("%d calls were not answered: %v", f.failed.Load(), f.err.Load())
	}
	if keys < float64(c.least) || keys > 0.9*float64(c.keys) {
		t.Errorf("%v keys are kept, want at least %d, and fewer than came", keys, c.least)
	}
	if peak := group.Peak(); peak >= c.limit {
		t.Errorf("a peak of %d bytes, want less than %d", peak, c.limit)
	}
	if status, why := r.Ready(); status != http.StatusOK {
		t.Errorf("/readyz: %d %s", status, why)
	}
}

// keyFlood is a PoP whose clients make up keys.
type keyFlood struct {
	addr, region           string
	callers                int
	sent, rejected, failed atomic.Int64
	err                    atomic.Value // a text
}

// run sends until so many keys were sent.
func (f *keyFlood) run(t *testing.T, until int64) {
	const perCall = 256
	holder := make([]byte, 16)
	_, _ = rand.Read(holder) // never fails
	proc.Together(f.callers, func(number int) {
		client := &http.Client{Transport: new(http.Transport), Timeout: 20 * time.Second}
		defer client.CloseIdleConnections()
		worker := region.NewWorker(client, f.addr, f.region, holder, uint64(number+1))
		for f.failed.Load() < 10 && t.Context().Err() == nil {
			from := f.sent.Add(perCall) - perCall
			if from >= until {
				f.sent.Add(-perCall)
				return
			}
			if err := f.call(t.Context(), worker, from, perCall); err != nil {
				f.err.Store(err.Error())
				f.failed.Add(1)
			}
		}
	})
}

// call asks for each of n keys twice.
func (f *keyFlood) call(ctx context.Context, worker *region.Worker, from int64, n int) error {
	var wants []*quotav1.Want
	for i := range 2 * n {
		wants = append(wants, region.Single("each", fmt.Appendf(nil, "user-%08d", from+int64(i/2))))
	}
	_, err := worker.Acquire(ctx, 10*time.Second, wants...)
	if connect.CodeOf(err) == connect.CodeResourceExhausted {
		f.rejected.Add(1)
		return nil
	}
	return err
}
