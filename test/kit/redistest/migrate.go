package redistest

import (
	"fmt"
	"time"

	"github.com/weirlimit/weir/test/kit/proc"
)

// settle is for how long gossip may carry a change to all nodes.
const settle = 15 * time.Second

// Migrate moves a slot to another master while it is in use, and calls at at each step:
//
//	opened   both ends have begun, and all keys are still where they were: a key that does not exist
//	         yet is redirected by ASK
//	moving   some keys have moved, the others have not; with less than two keys this does not occur
//	emptied  all keys have moved: every one is redirected by ASK
//	closed   the new master has the slot: clients that ask the old one are redirected by MOVED
func (c *Cluster) Migrate(slot int, to *Server, at func(step string)) {
	c.t.Helper()
	from := c.OwnerOf(slot)
	source, target := from.Do("CLUSTER", "MYID"), to.Do("CLUSTER", "MYID")
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", source)
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", target)
	at("opened")
	half := from.Do("CLUSTER", "COUNTKEYSINSLOT", slot).(int64) / 2
	if half > 0 {
		c.moveKeys(slot, from, to, half)
		at("moving")
	}
	for c.moveKeys(slot, from, to, 100) {
	}
	at("emptied")
	to.Do("CLUSTER", "SETSLOT", slot, "NODE", target)
	from.Do("CLUSTER", "SETSLOT", slot, "NODE", target)
	at("closed")
	proc.Await(c.t, settle, fmt.Sprintf("all nodes have slot %d at its new master", slot), func() string {
		for _, n := range c.running() {
			slots, err := n.slots()
			if owner := ownerOf(slots, slot); err != nil || owner != to.Addr {
				return fmt.Sprintf("%s has %s, %v", n.Addr, owner, err)
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
