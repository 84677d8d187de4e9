package redisstore

import (
	"context"
	"encoding/binary"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// holdersKey holds the holders that call any replica, by when one told of them last.
	// It is on the node of replicasKey.
	holdersKey = replicasKey + ":holders"
	// holderGone is how long after that a holder counts no more, holderAgain how often a
	// replica tells of one that goes on calling, and holderLately how long ago that may
	// have been.
	holderGone   = 10 * time.Second
	holderAgain  = 3 * time.Second
	holderLately = 3 * time.Second
	// mostHolders bounds those of whom a replica tells, each some 100 bytes on Redis. Of
	// more, what each replica counts by itself still counts.
	mostHolders = 1 << 14
	// holdersAtOnce bounds those that one script adds, so that no decision waits for it
	// for longer than some 0.2 ms.
	holdersAtOnce = 256
	// tallyBeats is of how many beats the largest count is believed: after Redis lost its
	// data all replicas have told of their holders again before a smaller one is.
	tallyBeats = 12
)

// holdersScript notes that holders were heard of, forgets those that were not for a while,
// and counts. ARGV: that while in milliseconds, the holders.
const holdersScript = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for i = 2, #ARGV do
  redis.call('ZADD', KEYS[1], now, ARGV[i])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return redis.call('ZCARD', KEYS[1])`

// CountHolders makes the heartbeat count the holders of all replicas, each once. live
// returns hashes of those that called this replica within that time. It is called before
// [Store.Run].
func (s *Store) CountHolders(live func(within time.Duration) []uint64) { s.live = live }

// Holders is how many holders call the replicas that share this Redis: the largest count
// of the last seconds in which Redis answered, so that neither a loss of its data nor its
// silence makes it fall. 0: it was never known.
func (s *Store) Holders() int { return int(s.holders.Load()) }

// tally is the count of holders. It belongs to the goroutine of beat.
type tally struct {
	told   map[uint64]time.Duration // the holders that were told of, and when
	counts [tallyBeats]int64        // of the last beats
	next   int                      // of counts
}

// due are those of the live holders that are to be told of now; they are noted as told.
func (t *tally) due(live []uint64, now time.Duration) (holders []uint64) {
	for id, at := range t.told {
		if now-at >= holderAgain {
			delete(t.told, id)
		}
	}
	for _, id := range live {
		if _, told := t.told[id]; !told && len(t.told) < mostHolders {
			t.told[id] = now
			holders = append(holders, id)
		}
	}
	return holders
}

// counted takes a count, and returns the one to believe.
func (t *tally) counted(n int64) (most int64) {
	t.counts[t.next] = n
	t.next = (t.next + 1) % tallyBeats
	for _, n := range t.counts {
		most = max(most, n)
	}
	return most
}

// tellHolders tells of the holders that call this replica, and counts those of all.
func (h *heart) tellHolders(ctx context.Context, client *redis.Client) {
	due := h.tally.due(h.store.live(holderLately), time.Since(h.store.began))
	for {
		n := min(len(due), holdersAtOnce)
		args := make([]any, 0, n+1)
		args = append(args, holderGone.Milliseconds())
		for _, id := range due[:n] {
			args = append(args, binary.BigEndian.AppendUint64(nil, id))
		}
		count, err := client.Eval(ctx, holdersScript, []string{holdersKey}, args...).Int64()
		if err != nil { // the heartbeat complains of what lasts
			clear(h.tally.told)
			return
		}
		if due = due[n:]; len(due) == 0 {
			h.store.holders.Store(h.tally.counted(count))
			return
		}
	}
}
