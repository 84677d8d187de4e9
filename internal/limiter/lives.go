package limiter

import (
	"slices"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/quotapb/wire"
)

const (
	// turnsToTell is after how many turns within turnMemory a worker is taken for one that
	// two stores answer. Around a restart there is none, or one, when an answer of the old
	// life is late.
	turnsToTell = 5
	turnMemory  = limit.Minute
)

// lives tells the epochs of a store: its own, and those of the lives before.
type lives struct {
	former []uint64
	heed   bool // what holders remember of other lives matters
}

// foreign reports whether an epoch is that of another store.
func (l *lives) foreign(epoch, ours uint64) bool {
	return epoch != 0 && epoch != ours && !slices.Contains(l.former, epoch)
}

// turns counts how often a worker was answered by another store after it had called this
// one: it presents the epoch of that, and acknowledges a call that is not older than its
// first one here.
type turns struct {
	first uint64 // number of its first call here; 0: it has not called
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

// divided reports whether another store answers, too.
func (t *turns) divided(now limit.Micros) bool {
	return t.count >= turnsToTell && since(t.last, now) < turnMemory
}

// present notes what epoch a call of a holder presents, ours or a foreign one; 0 is none.
// It reports whether the holder has dealt with another life, or store, since it was first
// seen.
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

// divided reports whether another store answers more than half of the live holders: one
// that is led astray, or lies, is not believed for all, nor for the only other one.
func (h *holders) divided(now limit.Micros) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	live, told := 0, 0
	for _, who := range h.known {
		if since(who.seen, now) >= liveFor {
			continue
		}
		live++
		for _, one := range who.workers {
			if one.divided(now) {
				told++
				break
			}
		}
	}
	return 2*told > live
}

// Divided reports whether holders are answered by another store, too, as by regions that
// share no counters behind one address: each grants the whole limit. It knows what can be
// seen from here: what its holders were answered elsewhere since they called here.
func (s *Service) Divided() bool { return s.holders.divided(s.now()) }

// formerOf notes the epoch of a call, and returns how the store is to name the holder if
// it may remember another life.
func (s *Service) formerOf(c *call, ours uint64, now limit.Micros) uint64 {
	r := &c.request
	foreign := s.lives.foreign(r.Epoch, ours)
	if foreign {
		s.metrics.foreign.Inc()
	}
	if !s.holders.present(c.holder, r, ours, foreign, now) || !s.lives.heed {
		return 0
	}
	return c.holder.hash()
}
