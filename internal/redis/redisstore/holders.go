package redisstore

import (
	"context"
	"encoding/binary"
	"time"
)

const (
	// A holder without a report for holderGone is not counted any more. At every third heartbeat
	// a replica reports the holders that called it since the one before, or shortly earlier.
	holderGone   = 10 * time.Second
	holderBeats  = 3
	holderLately = 4 * time.Second
	// mostHolders bounds how many holders a replica reports, each some 100 bytes on Redis.
	// Beyond that the replica's own count is used.
	mostHolders = 1 << 14
	// holdersAtOnce bounds how many holders one script adds, so that no decision waits
	// longer than some 0.2 ms for it.
	holdersAtOnce = 256
	// holderReplies is after how many heartbeats in a row a smaller number of holders is used:
	// by then all replicas have reported their holders again.
	holderReplies = 12
)

// CountHolders makes the heartbeat count the holders of all replicas, each once. live
// returns hashes of the holders that called this replica within that time. Call it before
// [Store.Run].
func (s *Store) CountHolders(live func(within time.Duration) []uint64) { s.live = live }

// Holders returns how many holders call the replicas that share this Redis: the largest
// count of the last seconds in which Redis answered, so that it does not fall when Redis
// loses its data or does not answer. 0: not known yet.
func (s *Store) Holders() int { return int(s.holders.Load()) }

// registerHolders reports the holders that call this replica, and counts those of all.
func (h *heart) registerHolders(ctx context.Context) {
	var due []uint64
	if h.beats%holderBeats == 0 {
		due = h.store.live(holderLately)
		due = due[:min(len(due), mostHolders)]
	}
	for {
		n := min(len(due), holdersAtOnce)
		args := make([]any, 0, n+1)
		args = append(args, holderGone.Milliseconds())
		for _, id := range due[:n] {
			args = append(args, binary.BigEndian.AppendUint64(nil, id))
		}
		count, err := h.store.eval(ctx, aliveScript, holdersKey, args...).Int64()
		if err != nil { // the heartbeat logs errors that last
			h.beats = 0 // the next one reports all
			h.holders.missed()
			return
		}
		if due = due[n:]; len(due) == 0 {
			h.beats++
			h.store.holders.Store(h.holders.counted(count))
			return
		}
	}
}
