package redisstore

import (
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/internal/live/livetest"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// All replicas see the same notes, on one server and in a cluster.
func TestNotes(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	var stores [2]*Store
	for i := range stores {
		stores[i] = start(t, Config{Redis: topology.Config{Addrs: c.Addrs()}})
	}
	for name, of := range map[string]func(*Store) live.Notes{"reports": (*Store).Reports, "watches": (*Store).Watches, "history": (*Store).History} {
		t.Run(name, func(t *testing.T) {
			livetest.Run(t, func(testing.TB) [2]live.Notes {
				onEach(c.Nodes, "FLUSHALL")
				return [2]live.Notes{of(stores[0]), of(stores[1])}
			})
		})
	}
	onEach(c.Nodes, "FLUSHALL")
	fatal.If(t, stores[0].Watches().Put(t.Context(), []live.Note{{ID: "a", For: time.Minute}}))
	if notes, _, err := stores[0].Reports().All(t.Context()); len(notes) != 0 || err != nil {
		t.Errorf("a watch among the reports: %v, %v", notes, err)
	}
}

// What other programs have written is passed over, and what cannot be read at all is an error.
func TestNotesOfOthers(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := start(t, Config{Redis: topology.Config{Addrs: []string{server.Addr}}})
	server.Do("HSET", notesKey+"reports", "x", "of another program", "ahead", "99999999999999 99999999999999 text", "", "")
	fatal.If(t, s.Reports().Put(t.Context(), []live.Note{{ID: "a", Text: []byte("b"), For: time.Minute}}))
	if notes, _, err := s.Reports().All(t.Context()); len(notes) != 1 || string(notes[0].Text) != "b" || err != nil {
		t.Errorf("%v, %v", notes, err)
	}
	if ttl := server.Do("PTTL", notesKey+"reports"); ttl.(int64) <= 0 || ttl.(int64) > 60_000 {
		t.Errorf("the notes last for %v ms", ttl)
	}
	server.Do("DEL", notesKey+"reports")
	server.Do("LPUSH", notesKey+"reports", "of another program")
	if notes, _, err := s.Reports().All(t.Context()); err == nil {
		t.Errorf("%v", notes)
	}
	if err := s.Reports().Put(t.Context(), []live.Note{{ID: "a", For: time.Minute}}); err == nil {
		t.Error("put on what another program has written")
	}
	server.Kill()
	if _, _, err := s.Watches().All(t.Context()); err == nil {
		t.Error("read without Redis")
	}
}
