package consul

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/proc"
)

// awaitText waits until the log has a text.
func (l *consulLog) awaitText(t *testing.T, text string) {
	t.Helper()
	proc.Await(t, time.Minute, text, func() string {
		l.mu.Lock()
		defer l.mu.Unlock()
		if strings.Contains(l.text.String(), text) {
			return ""
		}
		return "in the log: " + l.text.String()
	})
}

// holds waits until the catalog has the id of one process, and it passes.
func holds(t *testing.T, c *consultest.Agent, r *replica) {
	t.Helper()
	c.AwaitReplicas(service, func(all []consultest.Replica) string {
		if len(all) != 1 || all[0].Meta[instanceMeta] != r.instance || all[0].Status != "passing" {
			return "not " + r.instance
		}
		return ""
	})
}

// Two replicas with one address: the older one keeps it, both report it, and the younger one has
// it when the older one has ended.
func TestTwoWithOneID(t *testing.T) {
	t.Parallel()
	c := startConsul(t)
	a, log := newAgent(t, c.Addr)
	older := startReplica(t, a, "127.0.0.1", 8080)
	holds(t, c, older)
	b, logOfYounger := newAgent(t, c.Addr)
	younger := startReplica(t, b, "127.0.0.1", 8080)
	log.awaitText(t, "another process registered with the id of this one")
	logOfYounger.awaitText(t, "a process that is older has this id")
	holds(t, c, older)
	older.stop()
	holds(t, c, younger)
	younger.stop()
	c.AwaitStatus(service, nil)
}
