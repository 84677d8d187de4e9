package redisstore

import (
	"context"
	"encoding/binary"
	"time"
)

const (
	// A holder without a report for holderGone is not counted any more. A replica reports
	// a holder again after holderAgain, if it called within holderLately.
	holderGone   = 10 * time.Second
	holderAgain  = 3 * time.Second
	holderLately = 3 * time.Second
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

// holderReports is what this replica reports of its holders, and how many all replicas have. It
// belongs to the goroutine of Store.beat.
type holderReports struct {
	reported map[uint64]time.Duration // the holders that were reported, and when
	count    memberCount
}

func newHolderReports() holderReports {
	return holderReports{map[uint64]time.Duration{}, newMemberCount(holderReplies)}
}

// due returns the live holders to report now, and records them as reported.
func (r *holderReports) due(live []uint64, now time.Duration) (holders []uint64) {
	for id, at := range r.reported {
		if now-at >= holderAgain {
			delete(r.reported, id)
		}
	}
	for _, id := range live {
		if _, known := r.reported[id]; !known && len(r.reported) < mostHolders {
			r.reported[id] = now
			holders = append(holders, id)
		}
	}
	return holders
}

// registerHolders reports the holders that call this replica, and counts those of all.
func (h *heart) registerHolders(ctx context.Context) {
	due := h.holders.due(h.store.live(holderLately), time.Since(h.store.began))
	for {
		n := min(len(due), holdersAtOnce)
		args := make([]any, 0, n+1)
		args = append(args, holderGone.Milliseconds())
		for _, id := range due[:n] {
			args = append(args, binary.BigEndian.AppendUint64(nil, id))
		}
		count, err := h.store.eval(ctx, aliveScript, holdersKey, args...).Int64()
		if err != nil { // the heartbeat logs errors that last
			clear(h.holders.reported)
			h.holders.count.missed()
			return
		}
		if due = due[n:]; len(due) == 0 {
			h.store.holders.Store(h.holders.count.counted(count))
			return
		}
	}
}
