package limiter

import (
	"sync"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
)

const (
	// liveFor is how long after its last call a holder counts as live. One that has
	// nothing to ask for is silent, and no longer counts when shares are computed.
	liveFor = 10 * limit.Second
	// recountEvery is how old the count of live holders may be.
	recountEvery = limit.Second
)

// HolderID names a holder: random, made once per process.
type HolderID [16]byte

// holders remembers who calls, so that no call is applied twice. It is safe for
// concurrent use.
type holders struct {
	mu      sync.Mutex
	most    int
	known   map[HolderID]*holder
	live    int // as of counted
	counted limit.Micros
}

type holder struct {
	caller lease.Caller
	seen   limit.Micros
}

func newHolders(most int) *holders {
	return &holders{most: most, known: make(map[HolderID]*holder)}
}

// accept notes a call. It is not fresh if it was seen before, and not known if
// there are too many holders to remember this one.
func (h *holders) accept(id HolderID, seq uint64, now limit.Micros) (fresh, known bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	who := h.known[id]
	if who == nil {
		if len(h.known) >= h.most {
			h.recount(now, true)
		}
		if len(h.known) >= h.most {
			return false, false
		}
		who = new(holder)
		h.known[id] = who
		h.live++
	}
	who.seen = now
	return who.caller.Accept(seq), true
}

// count is how many holders called within liveFor.
func (h *holders) count(now limit.Micros) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if age := now - h.counted; age < 0 || age >= recountEvery {
		h.recount(now, false)
	}
	return h.live
}

// recount counts the live holders and, if there is need for room, forgets the
// others. A holder that comes back is as good as new: what it sent before is
// longer ago than anything may be on its way.
func (h *holders) recount(now limit.Micros, room bool) {
	h.live, h.counted = 0, now
	for id, who := range h.known {
		switch silent := now - who.seen; {
		case silent >= -liveFor && silent < liveFor:
			h.live++
		case room:
			delete(h.known, id)
		}
	}
}
