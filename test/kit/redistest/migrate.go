package redistest

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
)

// Step is where a migration of a slot stands.
type Step int

// The steps, in order.
const (
	// Opened: both ends have begun the migration, and all keys are still where they
	// were. A key that does not exist yet is redirected: ASK.
	Opened Step = iota
	// Moving: some keys have moved, the others have not.
	Moving
	// Emptied: all keys have moved; every one is redirected by ASK.
	Emptied
	// Closed: the new master has the slot; clients that ask the old one are
	// redirected by MOVED.
	Closed
)

// settle is for how long gossip may carry a change to all nodes.
const settle = 15 * time.Second

// Migrate moves a slot to another master while it is in use, and calls at, unless
// nil, at each step; with less than two keys in the slot Moving does not occur.
func (c *Cluster) Migrate(slot int, to *Server, at func(Step)) {
	c.t.Helper()
	from := c.OwnerOf(slot)
	if at == nil {
		at = func(Step) {}
	}
	source, target := from.Do("CLUSTER", "MYID"), to.Do("CLUSTER", "MYID")
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", source)
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", target)
	at(Opened)
	half := from.Do("CLUSTER", "COUNTKEYSINSLOT", slot).(int64) / 2
	if half > 0 {
		c.moveKeys(slot, from, to, half)
		at(Moving)
	}
	for c.moveKeys(slot, from, to, 100) {
	}
	at(Emptied)
	to.Do("CLUSTER", "SETSLOT", slot, "NODE", target)
	from.Do("CLUSTER", "SETSLOT", slot, "NODE", target)
	at(Closed)
	proc.Await(c.t, settle, fmt.Sprintf("all nodes have slot %d at its new master", slot), func() string {
		for _, n := range c.running() {
			members, err := n.members()
			if err != nil {
				return err.Error()
			}
			for _, m := range members {
				if m.addr != to.Addr && m.has(slot) {
					return fmt.Sprintf("%s thinks that %s has it", n.Addr, m.addr)
				}
			}
		}
		return ""
	})
}

// moveKeys moves up to most keys; false: there are none.
func (c *Cluster) moveKeys(slot int, from, to *Server, most int64) bool {
	c.t.Helper()
	keys := from.Do("CLUSTER", "GETKEYSINSLOT", slot, most).([]any)
	if len(keys) == 0 {
		return false
	}
	args := []any{"MIGRATE", "127.0.0.1", to.Port, "", 0, 5000}
	if o := to.client.Options(); o.Password != "" {
		args = append(args, "AUTH", o.Password)
	}
	from.Do(append(append(args, "KEYS"), keys...)...)
	return true
}
