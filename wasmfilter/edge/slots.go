package edge

import (
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// refusedHere is how long a worker refuses by itself after the PoP had no slot.
const refusedHere lease.Millis = 10

// holdHere asks the PoP itself for slots of a concurrency rule with scope: pop, and
// decides a request of this cost by the answer; 0 renews what is held. The granter
// is the table that the workers share, each of them a holder. False if the table
// has no room for the key.
func (w *Worker) holdHere(now lease.Millis, hd *holding, cost int64) (v lease.Verdict, room bool) {
	p := hd.policy
	want := hd.Ask(&p.terms, now, hd.inUse, cost, cost)
	for range table.Tries {
		st, d := p.limit.Hold(w.slots.Open(hd.key), w.Wall(now), w.number, want.Holding+want.Need, max(want.Want, want.Holding+want.Need))
		switch w.slots.Commit(w.Wall(now), st) {
		case table.Stored:
			hd.Apply(now, now, hereGrant(d, want))
			if hd.Enter(now, hd.inUse, cost) == lease.Admit {
				return lease.Admit, true
			}
			return lease.Refuse, true
		case table.Full:
			hd.Asking = false
			return lease.Refuse, false
		}
	}
	hd.Asking = false
	return lease.Refuse, true
}

func hereGrant(d limit.HoldDecision, want lease.HoldingWant) lease.Grant {
	g := lease.Grant{Status: lease.OK, Granted: d.Granted, TTL: millis(d.TTL), Remaining: d.Remaining}
	if d.Granted < want.Holding+want.Need {
		g.Status, g.AskAfter = lease.Denied, refusedHere
	}
	return g
}
