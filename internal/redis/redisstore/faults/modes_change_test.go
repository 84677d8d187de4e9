package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/redis/redisstore"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// The password of the store's user changes while it is in use: the servers take
// both, the file gets the new one, the servers forget the old one, and connections
// that were opened with it are cut. What was under way on these may be lost.
// Nothing else is, and nobody restarts anything.
func TestPasswordRotates(t *testing.T) {
	c := redistest.StartCluster(t, 3, 0, redistest.Users(usersOf(t, "first")...))
	file := filepath.Join(t.TempDir(), "password")
	write := func(password string) {
		if err := os.WriteFile(file+".new", []byte(password), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	onAll := func(command ...any) {
		for _, n := range c.Nodes {
			n.Do(command...)
		}
	}
	write("first")
	s := runStore(t, redisstore.Config{Redis: topology.Config{Addrs: c.Addrs(), Username: "weir", Timeout: time.Second,
		Password: func() (string, error) {
			b, err := os.ReadFile(file)
			return string(b), err
		}}})
	l := startLoad(t, s, counters("rotated", 3, 2))

	onAll("ACL", "SETUSER", "weir", ">second")
	write("second")
	onAll("ACL", "SETUSER", "weir", "<first")
	onAll("CLIENT", "KILL", "USER", "weir")
	l.awaitDecided(t)

	// The other way round, which is a mistake: connections that are up go on, and
	// when they are cut nothing is decided until the file is right.
	onAll("ACL", "SETUSER", "weir", "resetpass", ">third")
	onAll("CLIENT", "KILL", "USER", "weir")
	eventually(t, "Ready reports that the password is wrong", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		err := s.Ready(ctx)
		return err != nil && strings.Contains(err.Error(), "WRONGPASS")
	})
	write("third")
	l.awaitDecided(t)
	l.end(t, none, none)
}

// Sentinels give the name to a replica when the master dies under load, and once more with the old
// master as its replica. Nobody helps, and what was spent stays spent.
func TestSentinelFailsOver(t *testing.T) {
	servers := redistest.StartSentinel(t, 2)
	s := runStore(t, redisstore.Config{Redis: topology.Config{Addrs: servers.Addrs(), Mode: topology.Sentinel, SentinelMaster: servers.Name, Timeout: timeout}})
	l := startLoad(t, s, counters("failover", 1, 3))
	for i := range 2 {
		l.awaitSpent(t)
		time.Sleep(replicationLag)
		lost := servers.Master()
		lost.Kill()
		l.awaitAway(t, func(*counter) bool { return true })
		servers.AwaitMaster(lost)
		l.offer(counters(fmt.Sprint("new master ", i), 1, 1))
		l.awaitSpent(t)
		lost.Restart()
		servers.Await()
	}
	l.awaitDecided(t)
	l.end(t, none, none)
}
