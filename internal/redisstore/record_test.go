package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/upstream"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// Replicas of a region on one Redis have one record of its reserve: what one renounces all state, and Redis gets it back
// after it lost everything.
func TestRecordOfReplicas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var replicas [2]*upstream.Keeper
	for i := range replicas {
		store := start(t, Config{Addrs: []string{server.Addr}})
		replicas[i] = upstream.NewKeeper(upstream.KeeperConfig{
			Cell: store.Record("eu"), Region: "eu", Timeout: time.Second, Windows: func() []reserve.Window { return []reserve.Window{{Period: limit.Minute}} },
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = replicas[i].Run(ctx)
		}()
		t.Cleanup(func() {
			cancel()
			<-ended
		})
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
