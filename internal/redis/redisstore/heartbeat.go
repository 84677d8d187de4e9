package redisstore

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/internal/repeat"
)

const (
	// beatEvery is the time between two heartbeats of a replica. A replica that has sent
	// none for goneAfter halves of it is not counted any more.
	beatEvery = time.Second
	goneAfter = 7
	// replicaReplies is after how many heartbeats in a row a smaller number of replicas is used:
	// in these four seconds every replica sends several.
	replicaReplies = 5
)

// aliveScript records that replicas or holders are alive, drops those that did not report
// for a while, and returns how many are left. A report that lies ahead is of before the clock was
// set back: who is alive reports again. ARGV: that while in milliseconds, their names.
const aliveScript = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], now + ARGV[1], '+inf')
redis.call('PEXPIRE', KEYS[1], ARGV[1]) -- where that is not allowed, nothing is added that would stay for ever
for i = 2, #ARGV do
  redis.call('ZADD', KEYS[1], now, ARGV[i])
end
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return redis.call('ZCARD', KEYS[1])`

// memberCount counts the members of a set that Redis may lose: all report themselves again then, so
// that the first replies count few of them. If replicas used such a number and Redis failed again,
// each would enforce nearly the whole limit alone, for as long as a window. So the count is the
// largest of the last replies in a row. It rises at once.
type memberCount struct {
	replies []int64 // the last ones; as many as are needed in a row for a smaller count
	next    int     // of replies
}

// newMemberCount makes a count that falls after so many replies in a row.
func newMemberCount(replies int) memberCount { return memberCount{replies: make([]int64, replies)} }

// counted records a reply, and returns the count to use.
func (c *memberCount) counted(members int64) int64 {
	c.replies[c.next] = members
	c.next = (c.next + 1) % len(c.replies)
	return slices.Max(c.replies)
}

// missed records that there was no reply: reports of others may have failed, too.
func (c *memberCount) missed() {
	count := slices.Max(c.replies)
	for i := range c.replies {
		c.replies[i] = count
	}
}

// Replicas returns how many replicas of the service share this Redis, this one included.
// While Redis is unavailable it stays at the last number. It rises at once, and falls after some
// four seconds in which Redis answered. 0: not known yet.
func (s *Store) Replicas() int { return int(s.replicas.Load()) }

// heart sends the heartbeats of this replica. It belongs to the goroutine of Store.beat.
type heart struct {
	store      *Store
	id         string
	replicas   memberCount
	holders    memberCount
	beats      int // since holders were reported last
	rejections repeat.OncePerMinute
}

// beat sends heartbeats until ctx ends; then it removes this replica.
func (s *Store) beat(ctx context.Context) {
	h := heart{store: s, id: rand.Text(), replicas: newMemberCount(replicaReplies), holders: newMemberCount(holderReplies)}
	for repeat.Sleep(ctx, repeat.Jittered(h.once(ctx))) {
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.topology.Config.Timeout)
	defer cancel()
	if n := s.sharedNode(); n != nil {
		_ = n.Client().ZRem(ctx, replicasKey, h.id).Err() // if it fails, the others drop it later
	}
}

// once sends a heartbeat, and returns the time until the next one.
func (h *heart) once(ctx context.Context) time.Duration {
	n, err := h.store.eval(ctx, aliveScript, replicasKey, h.store.beatEvery.Milliseconds()*goneAfter/2, h.id).Int64()
	if err == nil {
		h.store.replicas.Store(h.replicas.counted(n))
		if h.store.live != nil {
			h.registerHolders(ctx)
		}
		return h.store.beatEvery
	}
	h.replicas.missed()
	switch kind := topology.ReplyOf(err).Kind; {
	case kind == topology.NoReply && h.store.Replicas() == 0:
		return h.store.beatEvery / 20 // at the start: soon after a node answers
	case (kind == topology.Full || kind == topology.Rejected) && h.rejections.Now():
		h.store.topology.Config.Log.Warn("redis rejects the heartbeat; the number of replicas is not updated",
			"replicas", h.store.Replicas(), "error", h.store.topology.Config.Advised(err))
	}
	return h.store.beatEvery
}
