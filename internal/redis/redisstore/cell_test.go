package redisstore

import (
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/enginetest"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// All who share a Redis swap one value, and each region has one of its own.
func TestCell(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	var stores [2]*Store
	for i := range stores {
		stores[i] = start(t, Config{Redis: topology.Config{Addrs: []string{server.Addr}}})
	}
	for _, of := range []func(*Store) engine.Cell{(*Store).Shares, func(s *Store) engine.Cell { return s.Record("eu") }} {
		enginetest.RunCell(t, func(testing.TB) [2]engine.Cell {
			server.Do("FLUSHALL")
			return [2]engine.Cell{of(stores[0]), of(stores[1])}
		})
	}
	if found, _, err := stores[0].Record("us").Swap(t.Context(), nil, nil); found != nil || err != nil {
		t.Errorf("of another region: %q, %v", found, err)
	}
	server.Do("LPUSH", sharesKey, "of another program")
	if found, _, err := stores[0].Shares().Swap(t.Context(), nil, []byte("a")); err == nil {
		t.Errorf("where another program has written: %q", found)
	}
	server.Kill()
	if found, _, err := stores[0].Record("eu").Swap(t.Context(), nil, nil); err == nil {
		t.Errorf("without Redis: %q", found)
	}
}

// While the hash slot of a cell moves to another master, as one does for long if a reshard was interrupted, the value is
// found whether it has moved or not.
func cellOfAMovingSlot(t *testing.T, c *redistest.Cluster) {
	s := onCluster(t, c, Config{})
	here, moved := s.Record("eu"), s.Record("us")
	swap := func(cell engine.Cell, old, next, want string) {
		t.Helper()
		if found, now, err := cell.Swap(t.Context(), []byte(old), []byte(next)); string(found) != want || now == 0 || err != nil {
			t.Errorf("found %q at %d, %v; want %q", found, now, err, want)
		}
	}
	swap(here, "", "a", "")
	slot, from, to := journey(c, replicasKey)
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", from.Do("CLUSTER", "MYID"))
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.Do("CLUSTER", "MYID"))
	defer from.Do("CLUSTER", "SETSLOT", slot, "STABLE")
	defer to.Do("CLUSTER", "SETSLOT", slot, "STABLE")
	swap(here, "a", "b", "a")
	swap(here, "b", "c", "b")
	swap(moved, "", "A", "")
	swap(moved, "A", "B", "A")
}
