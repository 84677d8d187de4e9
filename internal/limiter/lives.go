package limiter

import (
	"slices"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/quotapb/wire"
)

const (
	// dividedTurns is how many turns within turnMemory show that two stores answer a worker.
	// Around a restart there is none, or one, when an answer of the old life is late.
	dividedTurns = 5
	turnMemory   = limit.Minute
)

// lives are the epochs of a store before its present one.
type lives struct {
	former []uint64
	learn  bool // the store uses what holders remember of them
}

// foreign reports whether an epoch is that of another store.
func (l *lives) foreign(epoch, ours uint64) bool {
	return epoch != 0 && epoch != ours && !slices.Contains(l.former, epoch)
}

// turns counts how often another store answered a worker after it had called this one: the
// worker presents the epoch of that store, and acknowledges a call that is not older than
// its first one to this store.
type turns struct {
	first uint64 // number of its first call to this store; 0: it has not called
	count int
	last  limit.Micros
}

// presented notes the epoch of a call.
func (t *turns) presented(foreign bool, seq, ack uint64, now limit.Micros) {
	if t.first == 0 {
		t.first = seq
	}
	if !foreign || ack < t.first {
		return
	}
	if since(t.last, now) >= turnMemory {
		t.count = 0
	}
	t.count++
	t.last = now
}

// divided reports whether another store answers the worker, too.
func (t *turns) divided(now limit.Micros) bool {
	return t.count >= dividedTurns && since(t.last, now) < turnMemory
}

// present notes the epoch that a call of a holder presents: ours, a foreign one, or 0, none.
// It reports whether another life, or another store, has answered the holder since its
// first call.
func (h *holders) present(id HolderID, r *wire.Request, ours uint64, foreign bool, now limit.Micros) (former bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	who := h.known[id]
	if who == nil { // it has been forgotten just now
		return false
	}
	who.former = who.former || r.Epoch != 0 && r.Epoch != ours
	if one := who.workers[r.Worker]; one != nil {
		one.presented(foreign, r.Seq, r.Ack, now)
	}
	return who.former
}

// divided reports whether another store answers more than half of the live holders. A
// single holder that is misrouted, or lies, does not count for all.
func (h *holders) divided(now limit.Micros) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	live, split := 0, 0
	for _, who := range h.known {
		if since(who.seen, now) >= liveFor {
			continue
		}
		live++
		for _, one := range who.workers {
			if one.divided(now) {
				split++
				break
			}
		}
	}
	return 2*split > live
}

// Divided reports whether another store answers the holders, too, as with regions that
// share no counters behind one address: each grants the whole limit. It is judged by the
// epochs that the holders present.
func (s *Service) Divided() bool { return s.holders.divided(s.now()) }

// formerOf notes the epoch of a call. It returns the name of the holder for Ask.Former; 0 if
// no other life has answered it, or the store does not use what it remembers.
func (s *Service) formerOf(x *exchange, ours uint64, now limit.Micros) uint64 {
	r := &x.request
	foreign := s.lives.foreign(r.Epoch, ours)
	if foreign {
		s.metrics.foreign.Inc()
	}
	if !s.holders.present(x.holder, r, ours, foreign, now) || !s.lives.learn {
		return 0
	}
	return x.holder.hash()
}
