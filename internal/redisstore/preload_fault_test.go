package redisstore_test

import (
	"fmt"
	"testing"

	"github.com/weirlimit/weir/internal/redisstore/script"
	"github.com/weirlimit/weir/test/kit/redistest"
)

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
	if sum := c.Commands("evalsha"); sum.Calls == 0 || sum.Failed+sum.Rejected > 0 {
		t.Errorf("asked for the first time, the masters refused %d of %d scripts", sum.Failed+sum.Rejected, sum.Calls)
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
	refused := next.CommandStats()["evalsha"].Failed
	l.awaitAnswers(t, l.at(), patience)
	if again := next.CommandStats()["evalsha"].Failed; again != refused {
		t.Errorf("the replica that was promoted refused %d scripts after they were loaded", again-refused)
	}
}

// awaitScripts waits until a server was sent every script.
func awaitScripts(t *testing.T, n *redistest.Server) {
	t.Helper()
	eventually(t, fmt.Sprint(n.Addr, " has the scripts"), func() bool {
		return n.CommandStats()["script|load"].Calls >= int64(len(script.All()))
	})
}
