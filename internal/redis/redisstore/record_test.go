package redisstore

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/upstream"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// runKeeper keeps the record of the region eu for as long as the test.
func runKeeper(t *testing.T, store *Store) *upstream.Keeper {
	k := upstream.NewKeeper(upstream.KeeperConfig{
		Cell: store.Record("eu"), Region: "eu", Timeout: time.Second, Windows: func() []reserve.Window { return []reserve.Window{{Period: limit.Minute}} },
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = k.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return k
}

// Replicas of a region on one Redis have one record of its reserve: what one renounces all state, and Redis gets it back
// after it lost everything.
func TestRecordOfReplicas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var replicas [2]*upstream.Keeper
	for i := range replicas {
		replicas[i] = runKeeper(t, start(t, Config{Redis: topology.Config{Addrs: []string{server.Addr}}}))
	}
	states := func(what string, met func(one, other reserve.Statement) bool) {
		t.Helper()
		eventually(t, func() string {
			one, _ := replicas[0].Statement()
			if other, ok := replicas[1].Statement(); ok && met(one, other) {
				return ""
			}
			return what
		})
	}
	states("one record", func(one, other reserve.Statement) bool { return one.ID != 0 && one.ID == other.ID && one.Until == 0 })
	at := limit.Micros(time.Now().UnixMicro())
	record, _ := replicas[0].Statement()
	replicas[0].Replied(time.Now(), reserve.Reply{ID: record.ID, At: at, Share: reserve.Share{No: 7, Part: 300, Since: at}, Until: at})
	renounced := func(one, other reserve.Statement) bool {
		return one.ID == record.ID && one.Until > at && other.Until == one.Until && other.No == 7 && other.Part == 300
	}
	states("both have renounced until the same time", renounced)
	server.Do("FLUSHALL")
	eventually(t, func() string {
		if server.Do("GET", recordKey+"eu") == nil {
			return "the record is in Redis again"
		}
		return ""
	})
	states("both remember it", renounced)
	if share, known := replicas[1].Share(); share != 300 || !known {
		t.Errorf("a share of %d, %v", share, known)
	}
}

// nobody is an aggregator that decides nothing.
type nobody struct{ owed atomic.Int64 }

func (*nobody) Epoch() uint64 { return 1 }

func (*nobody) Acquire(_ context.Context, _ []engine.Ask, grants []lease.Grant) {
	for i := range grants {
		grants[i] = lease.Grant{Status: lease.Unavailable}
	}
}

func (*nobody) Fall(*engine.Ask, int) engine.Judgment { return engine.Judgment{} }
func (*nobody) Untake(*engine.Ask, *engine.Judgment)  {}
func (n *nobody) Owe(_ *engine.Ask, units int64)      { n.owed.Add(units) }

// Two replicas of a region on one Redis, which the aggregator does not answer, count its reserve together: its share of each
// window, to the unit, and before that its share of the rate.
func TestReserveOfReplicas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	l, err := limit.New(limit.Spec{Algorithm: limit.FixedWindow, Count: 400, Period: limit.Second})
	if err != nil {
		t.Fatal(err)
	}
	p := engine.NewPolicy("r", 0, l, lease.NewTerms(l, lease.Exact, 0, 0, 0))
	p.Scope, p.OnFailure, p.Regions = rule.ScopeGlobal, lease.FailureLocal, rule.Regions{{Name: "eu", Weight: 1}, {Name: "us", Weight: 3}}
	var far nobody
	var replicas [2]*upstream.Store
	var keepers [2]*upstream.Keeper
	for i := range replicas {
		store := start(t, Config{Redis: topology.Config{Addrs: []string{server.Addr}}})
		keepers[i] = runKeeper(t, store)
		replicas[i] = upstream.New(upstream.Config{
			Far: &far, Own: store, Raw: store, Keeper: keepers[i], Lacks: func(string) bool { return false }, Metrics: telemetry.NewRegistry(""),
		})
	}
	eventually(t, func() string {
		one, _ := keepers[0].Statement()
		if other, ok := keepers[1].Statement(); !ok || one.ID != other.ID {
			return "one record"
		}
		return ""
	})
	record, _ := keepers[0].Statement()
	at := limit.Micros(time.Now().UnixMicro())
	keepers[0].Replied(time.Now(), reserve.Reply{ID: record.ID, At: at, Share: reserve.Share{No: 7, Part: 250, Since: at}, Until: at})
	eventually(t, func() string {
		if _, known := keepers[1].Share(); !known {
			return "both know the share"
		}
		return ""
	})
	began := time.Now()
	units, mu := map[uint32]int64{}, sync.Mutex{}
	var spending sync.WaitGroup
	for _, s := range replicas {
		for range 4 {
			spending.Go(func() {
				for time.Since(began) < 9*time.Second {
					grants := make([]lease.Grant, 1)
					s.Acquire(t.Context(), []engine.Ask{one(p, "k")}, grants)
					mu.Lock()
					units[grants[0].Lease&^(3<<30)] += grants[0].Granted
					mu.Unlock()
					if grants[0].Granted == 0 {
						time.Sleep(5 * time.Millisecond)
					}
				}
			})
		}
	}
	spending.Wait()
	delete(units, 0) // of denials
	whole := 0
	for label, n := range units {
		if n > 100 {
			t.Errorf("%d units in window %d, want at most a share of 100", n, label)
		}
		if n == 100 {
			whole++
		}
	}
	if owed := far.owed.Load(); whole < 2 || owed < 200 || owed > 700 {
		t.Errorf("%v, of which %d are owed: want the whole share of some windows, and a share of the rate for six seconds before", units, owed)
	}
}
