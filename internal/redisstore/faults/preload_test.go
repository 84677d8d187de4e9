package faults

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/redisstore/script"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// noScript is the code of Redis's error for a script that it does not have.
const noScript = "NOSCRIPT"

// TestScriptsPreloaded: every master has the scripts before it is asked to run one,
// and so has a replica that is promoted, soon after.
func TestScriptsPreloaded(t *testing.T) {
	c := redistest.StartCluster(t, 3, 1)
	l := startLoad(startStore(t, c), nil)
	for _, n := range c.Masters() {
		awaitScripts(t, n)
	}
	from := l.at()
	l.offer(counters("preloaded", 3, 2))
	v := startVisitors(l, keysOf(slotted, "preloaded", 3, 1))
	t.Cleanup(func() {
		l.stop()
		v.all.Wait()
	})
	l.awaitAnswers(t, from, patience)
	if c.Commands("evalsha").Calls == 0 {
		t.Error("no master was asked to run a script")
	}
	for _, n := range c.Masters() {
		if unknown := n.Errors(noScript); unknown > 0 {
			t.Errorf("asked for the first time, %s did not have %d scripts", n.Addr, unknown)
		}
	}

	lost := c.Masters()[0]
	next := c.ReplicasOf(lost)[0]
	if n := next.CommandStats()["script|load"].Calls; n != 0 {
		t.Fatalf("a replica was sent %d scripts", n)
	}
	lost.Kill()
	if owner := c.AwaitMaster(0, lost); owner != next {
		t.Fatalf("%s has the slots of %s, want its replica %s", owner.Addr, lost.Addr, next.Addr)
	}
	awaitScripts(t, next)
	l.awaitAnswers(t, l.at(), patience)
	unknown := next.Errors(noScript)
	l.awaitAnswers(t, l.at(), patience)
	if again := next.Errors(noScript); again != unknown {
		t.Errorf("the replica that was promoted did not have %d scripts after they were loaded", again-unknown)
	}
}

// awaitScripts waits until a server was sent every script.
func awaitScripts(t *testing.T, n *redistest.Server) {
	t.Helper()
	eventually(t, fmt.Sprint(n.Addr, " has the scripts"), func() bool {
		return n.CommandStats()["script|load"].Calls >= int64(len(script.All()))
	})
}
