package redisstore

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/aggregator"
	"github.com/weirlimit/weir/internal/limit"
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

// All replicas on one Redis, of all regions that share it, have its identity, and another Redis has
// another one, as has one that lost its data. What somebody else writes there, or a lack of memory, leaves
// the receipts alone.
func TestIdentity(t *testing.T) {
	t.Parallel()
	servers := [2]*redistest.Server{redistest.Start(t), redistest.Start(t)}
	var records []limiter.Record
	for _, server := range []*redistest.Server{servers[0], servers[0], servers[1]} {
		store := start(t, Config{Addrs: []string{server.Addr}})
		records = append(records, store.Receipts("eu"))
	}
	read := func(r limiter.Record) (identity uint64) {
		t.Helper()
		got, err := r.Receipt(t.Context(), false)
		if err != nil || got.Now == 0 || got.Newest == 0 || got.Newest > got.Now {
			t.Fatalf("%+v, %v", got, err)
		}
		return got.Identity
	}
	one, same, other := read(records[0]), read(records[1]), read(records[2])
	if one == 0 || other == 0 || one != same || one == other || read(records[0]) != one {
		t.Errorf("%x and %x on one Redis, %x on another one", one, same, other)
	}
	if text := fmt.Sprintf("%016x", one); servers[0].Do("GET", identityKey) != text {
		t.Errorf("Redis has %v, want %s", servers[0].Do("GET", identityKey), text)
	}
	servers[0].Do("FLUSHALL")
	if next := read(records[0]); next == 0 || next == one || read(records[1]) != next {
		t.Errorf("%x after its data was lost, %x before", next, one)
	}
	for _, foreign := range [][]any{{"SET", identityKey, "hello"}, {"LPUSH", identityKey, "hello"}} {
		servers[0].Do("DEL", identityKey)
		servers[0].Do(foreign...)
		if got := read(records[0]); got != 0 {
			t.Errorf("%v: %x", foreign, got)
		}
	}
	servers[0].Do("DEL", identityKey)
	servers[0].Do("CONFIG", "SET", "maxmemory", "1")
	if got := read(records[0]); got != 0 {
		t.Errorf("no memory: %x", got)
	}
	servers[0].Do("CONFIG", "SET", "maxmemory", "0")
	if read(records[0]) == 0 {
		t.Error("none although there is memory")
	}
}

// While the hash slot of the record moves to another master, as one does for long if a reshard was
// interrupted, an identity that is not there cannot be read. The receipts can.
func receiptOfAMovingSlot(t *testing.T, c *redistest.Cluster) {
	s := start(t, Config{Addrs: c.Addrs()})
	eventually(t, func() string { return unlike(s, 3) })
	record := s.Receipts("eu")
	if got, err := record.Receipt(t.Context(), true); err != nil || got.Identity == 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	slot := int(hashSlotOf(replicasKey))
	from := c.OwnerOf(slot)
	to := c.Nodes[0]
	if from == to {
		to = c.Nodes[1]
	}
	from.Do("DEL", identityKey)
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.Do("CLUSTER", "MYID"))
	defer from.Do("CLUSTER", "SETSLOT", slot, "STABLE")
	for _, renew := range []bool{false, true} {
		if got, err := record.Receipt(t.Context(), renew); err != nil || got.Newest == 0 || got.Identity != 0 {
			t.Errorf("renew %v: %+v, %v", renew, got, err)
		}
	}
}

// Aggregators on one Redis read each other's records of silences, with one clock, and each finds what was there before
// it sets its own. Records that were made by another clock are not set, and without Redis there is an error.
func TestSilences(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var stores [2]*Store
	for i := range stores {
		stores[i] = start(t, Config{Addrs: []string{server.Addr}})
	}
	exchange := func(i int, after limit.Micros, eu, us string) (aggregator.Exchanged, string) {
		t.Helper()
		got, err := stores[i].Silences(t.Context(), aggregator.Records{Regions: []string{"eu", "us"}, Set: [][]byte{[]byte(eu), []byte(us)}, After: after})
		if err != nil || len(got.Found) != 2 {
			t.Fatalf("%+v, %v", got, err)
		}
		return got, string(got.Found[0]) + "," + string(got.Found[1])
	}
	eventually(t, func() string {
		for _, s := range stores {
			if _, err := s.Silences(t.Context(), aggregator.Records{}); err != nil {
				return err.Error()
			}
		}
		return ""
	})
	first, found := exchange(0, 0, "early", "early")
	if found != "," || first.WasSet {
		t.Errorf("at first %q, %+v", found, first)
	}
	if got, found := exchange(0, first.Now-limit.Millisecond, "a", ""); found != "," || !got.WasSet {
		t.Errorf("its own, before it is set: %q, %+v", found, got)
	}
	if got, found := exchange(1, first.Now+limit.Hour, "late", "late"); found != "a," || got.WasSet {
		t.Errorf("of the other one: %q, %+v", found, got)
	}
	if _, found := exchange(1, first.Now-limit.Millisecond, "", "b"); found != "a," {
		t.Errorf("of the other one, again: %q", found)
	}
	last, found := exchange(0, 0, "", "")
	if found != "a,b" {
		t.Errorf("of both: %q", found)
	}
	if clock := limit.Micros(time.Now().UnixMicro()); last.Now <= first.Now || last.Now > clock || clock-first.Now > limit.Minute {
		t.Errorf("the clock shows %d and then %d, want about %d", first.Now, last.Now, clock)
	}
	server.Kill()
	if got, err := stores[0].Silences(t.Context(), aggregator.Records{}); err == nil {
		t.Errorf("without Redis: %+v", got)
	}
}
