package redisstore

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// holdersKey is a sorted set of the holders that call any replica; the score is the
	// time of the last report. It is on the node of replicasKey.
	holdersKey = replicasKey + ":holders"
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
	// countedBeats is the number of heartbeats of which the largest count is used: after
	// Redis lost its data, all replicas have reported their holders again before a smaller
	// count is used.
	countedBeats = 12
)

// CountHolders makes the heartbeat count the holders of all replicas, each once. live
// returns hashes of the holders that called this replica within that time. Call it before
// [Store.Run].
func (s *Store) CountHolders(live func(within time.Duration) []uint64) { s.live = live }

// Holders returns how many holders call the replicas that share this Redis: the largest
// count of the last seconds in which Redis answered, so that it does not fall when Redis
// loses its data or does not answer. 0: not known yet.
func (s *Store) Holders() int { return int(s.holders.Load()) }

// holderCount counts the holders of all replicas. It belongs to the goroutine of
// Store.beat.
type holderCount struct {
	reported map[uint64]time.Duration // the holders that were reported, and when
	counts   [countedBeats]int64      // of the last heartbeats
	next     int                      // of counts
}

// due returns the live holders to report now, and records them as reported.
func (t *holderCount) due(live []uint64, now time.Duration) (holders []uint64) {
	for id, at := range t.reported {
		if now-at >= holderAgain {
			delete(t.reported, id)
		}
	}
	for _, id := range live {
		if _, known := t.reported[id]; !known && len(t.reported) < mostHolders {
			t.reported[id] = now
			holders = append(holders, id)
		}
	}
	return holders
}

// counted records a count, and returns the one to use.
func (t *holderCount) counted(n int64) (most int64) {
	t.counts[t.next] = n
	t.next = (t.next + 1) % countedBeats
	for _, n := range t.counts {
		most = max(most, n)
	}
	return most
}

// registerHolders reports the holders that call this replica, and counts those of all.
func (h *heart) registerHolders(ctx context.Context, client *redis.Client) {
	due := h.holders.due(h.store.live(holderLately), time.Since(h.store.began))
	for {
		n := min(len(due), holdersAtOnce)
		args := make([]any, 0, n+1)
		args = append(args, holderGone.Milliseconds())
		for _, id := range due[:n] {
			args = append(args, binary.BigEndian.AppendUint64(nil, id))
		}
		count, err := client.Eval(ctx, aliveScript, []string{holdersKey}, args...).Int64()
		if err != nil { // the heartbeat logs errors that last
			clear(h.holders.reported)
			return
		}
		if due = due[n:]; len(due) == 0 {
			h.store.holders.Store(h.holders.counted(count))
			return
		}
	}
}
