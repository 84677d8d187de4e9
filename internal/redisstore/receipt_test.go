package redisstore

import (
	"log/slog"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// All replicas of a region see what one has received, and only that is acknowledged.
func TestReceiptsOfReplicas(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var replicas [2]*limiter.Receipts
	for i := range replicas {
		store := start(t, Config{Addrs: []string{server.Addr}})
		replicas[i] = limiter.NewReceipts(store.Receipts("eu"), slog.New(slog.DiscardHandler))
		go func() { _ = replicas[i].Run(t.Context()) }()
	}
	await := func(what string, met func() bool) {
		t.Helper()
		eventually(t, func() string {
			if met() {
				return ""
			}
			return what
		})
	}
	await("no reply: both are silent", func() bool { return replicas[0].Silent() && replicas[1].Silent() })
	replicas[0].Received(7)
	await("the receipt is recorded", func() bool { return replicas[0].Recorded() == 7 })
	await("the other replica is not silent either", func() bool { return !replicas[1].Silent() })
	if n := replicas[1].Recorded(); n != 0 {
		t.Errorf("the other replica acknowledges %d of its own", n)
	}
	await("both are silent again", func() bool { return replicas[0].Silent() && replicas[1].Silent() })
	server.Kill()
	replicas[0].Received(8)
	time.Sleep(time.Second)
	if n := replicas[0].Recorded(); n != 7 {
		t.Errorf("without Redis a reply is acknowledged as %d", n)
	}
}
