package faults

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/lease"
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
	l := startLoad(s, counters("rotated", 3, 2))
	stop := stopOnce(t, l)
	w := startWatch(l, s)
	stopWatch := stopOnce(t, w)
	l.awaitAnswers(t, 0, 20*time.Second)

	onAll("ACL", "SETUSER", "weir", ">second")
	write("second")
	onAll("ACL", "SETUSER", "weir", "<first")
	onAll("CLIENT", "KILL", "USER", "weir")
	cut := l.at()
	l.awaitAnswers(t, cut, 20*time.Second)
	t.Logf("all keys are decided again %v after the connections were cut", (l.at() - cut).Round(time.Millisecond))

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
	right := l.at()
	l.awaitAnswers(t, right, 20*time.Second)
	t.Logf("and %v after the file was put right", (l.at() - right).Round(time.Millisecond))
	stop()
	stopWatch()
	r := referee{begin: l.begin, unanswered: w.unanswered}
	for _, fault := range r.judge(l.answers) {
		t.Error(fault)
	}
}

// stopOnce stops what runs when it is called, or at the end of the test.
func stopOnce(t *testing.T, of interface{ stop() }) func() {
	stop := sync.OnceFunc(of.stop)
	t.Cleanup(stop)
	return stop
}

// Sentinels give the name to a replica when the master dies under load. Nobody
// helps; every call returns in time; what the replica had not received yet begins
// anew, once.
func TestSentinelFailsOver(t *testing.T) {
	servers := redistest.StartSentinel(t, 2)
	s := runStore(t, redisstore.Config{Redis: topology.Config{Addrs: servers.Addrs(), Mode: topology.Sentinel, SentinelMaster: servers.Name}})
	// A new master may be there within the second of a window.
	offered := slices.DeleteFunc(counters("failover", 1, 6), func(c *counter) bool { return c.policy.Rule == perSecond })
	l := startLoad(s, offered)
	stop := stopOnce(t, l)
	w := startWitness(l, nil)
	stopWitness := stopOnce(t, w)
	seen := startWatch(l, s)
	stopWatch := stopOnce(t, seen)
	l.awaitAnswers(t, 0, 20*time.Second)

	all := func(*counter) bool { return true }
	var losses []loss
	for range 2 { // there and, with the old master as its replica, on
		lost := servers.Master()
		killed := l.at()
		losses = append(losses, loss{of: all, failover: true, fault: killed})
		lost.Kill()
		servers.AwaitMaster(lost)
		chosen := l.at()
		l.awaitAnswers(t, chosen, 30*time.Second)
		t.Logf("decided again %v after there was a new master, %v after the old one was killed",
			(l.at() - chosen).Round(10*time.Millisecond), (l.at() - killed).Round(10*time.Millisecond))
		lost.Restart()
		servers.Await()
	}
	stop()
	stopWitness()
	stopWatch()
	r := referee{begin: l.begin, losses: losses, unanswered: seen.unanswered}
	for _, fault := range r.judge(l.answers) {
		t.Error(fault)
	}
	unavailable := 0
	for _, a := range l.answers {
		if a.status == lease.Unavailable {
			unavailable++
		}
	}
	if unavailable == 0 {
		t.Error("no ask was unavailable: the master was not missed")
	}
	(&trial{t: t, load: l, witness: w}).inTime()
}
