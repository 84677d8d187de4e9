package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// beatEvery is the time between two heartbeats of a replica. A replica without a
	// heartbeat for goneAfter, three in a row, is not counted any more.
	beatEvery = time.Second
	goneAfter = 3500 * time.Millisecond
	// heartQuiet is the time without a refused heartbeat after which the next refusal is
	// logged again.
	heartQuiet = time.Minute
	// replicasKey is a sorted set of the replicas; the score is the time of the last
	// heartbeat.
	replicasKey = "weir:{replicas}"
)

// aliveScript records that replicas or holders are alive, drops those that did not report
// for a while, and returns how many are left. A report that lies ahead is of before the clock was
// set back: who is alive reports again. ARGV: that while in milliseconds, their names.
const aliveScript = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
for i = 2, #ARGV do
  redis.call('ZADD', KEYS[1], now, ARGV[i])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], now + ARGV[1], '+inf')
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return redis.call('ZCARD', KEYS[1])`

// replicaCount counts the replicas that are alive. After Redis lost its data the first
// heartbeat counts one replica, the second two. If replicas used these numbers and Redis
// failed again, each would enforce nearly the whole limit alone, for as long as a window.
// So a lower number is used only after goneAfter, in which every replica can send a
// heartbeat. Times are of a monotonic clock.
//
// Invariant: replicas never falls within goneAfter of a lower reply, of a heartbeat that
// failed, or of goneAfter without a reply.
type replicaCount struct {
	replicas int64         // 0: not known yet
	latest   int64         // the last reply to a heartbeat
	last     time.Duration // when it arrived
	gap      bool          // a heartbeat failed since
	since    time.Duration // when the number last fell, or the last gap ended
}

// answered records the reply to a heartbeat that arrived at now.
func (c *replicaCount) answered(replicas int64, now time.Duration) {
	if replicas < c.latest || c.gap || now-c.last > goneAfter {
		c.since = now
	}
	c.latest, c.last, c.gap = replicas, now, false
	if replicas >= c.replicas || now-c.since >= goneAfter {
		c.replicas = replicas
	}
}

// missed records that a heartbeat failed: those of other replicas may have failed too.
func (c *replicaCount) missed() { c.gap = true }

// Replicas returns how many replicas of the service share this Redis, this one included.
// While Redis is away it stays at the last number. It rises at once, and falls after some
// four seconds in which Redis answered. 0: not known yet.
func (s *Store) Replicas() int { return int(s.replicas.Load()) }

// heart sends the heartbeats of this replica. It belongs to the goroutine of Store.beat.
type heart struct {
	store      *Store
	id         string
	replicas   replicaCount
	holders    holderCount
	quietUntil time.Duration // no refused heartbeat is logged before then
}

// beat sends a heartbeat every second until ctx ends; then it removes this replica.
func (s *Store) beat(ctx context.Context) {
	h := heart{store: s, id: rand.Text(), holders: holderCount{reported: map[uint64]time.Duration{}}}
	for sleep(ctx, h.once(ctx)) {
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.Timeout)
	defer cancel()
	if client := s.replicasClient(); client != nil {
		_ = client.ZRem(ctx, replicasKey, h.id).Err() // if it fails, the others drop it after goneAfter
	}
}

// once sends a heartbeat, and returns the time until the next one.
func (h *heart) once(ctx context.Context) time.Duration {
	n, err := h.beat(ctx)
	if err == nil {
		h.replicas.answered(n, time.Since(h.store.began))
		h.store.replicas.Store(h.replicas.replicas)
		if client := h.store.replicasClient(); client != nil && h.store.live != nil {
			h.registerHolders(ctx, client)
		}
		return jittered(beatEvery)
	}
	h.replicas.missed()
	if h.replicas.replicas == 0 && !isReply(err) {
		return jittered(beatEvery / 20) // at the start: soon after a node answers
	}
	return jittered(beatEvery)
}

var errNoNode = errors.New("redis: no node for the heartbeat answers")

// beat sends one heartbeat, and returns how many replicas are alive.
func (h *heart) beat(ctx context.Context) (int64, error) {
	client := h.store.replicasClient()
	if client == nil {
		return 0, errNoNode
	}
	n, err := client.Eval(ctx, aliveScript, []string{replicasKey}, goneAfter.Milliseconds(), h.id).Int64()
	switch v, _ := replyKindOf(err); v {
	case done:
	case full, refused: // by the master of the key: the topology is right
		h.logRefusal(err)
	default:
		h.store.requestReload()
	}
	return n, err
}

// logRefusal logs that a heartbeat is refused, unless one was logged shortly before:
// most refusals last, or come and go.
func (h *heart) logRefusal(err error) {
	now := time.Since(h.store.began)
	if now >= h.quietUntil {
		h.store.config.Log.Warn("redis refuses the heartbeat; the number of replicas is not updated",
			"replicas", h.replicas.replicas, "error", h.store.config.advised(err))
	}
	h.quietUntil = now + heartQuiet
}

// replicasClient returns a client of the node of replicasKey; nil if its breaker is open.
func (s *Store) replicasClient() *redis.Client {
	if n := s.table[hashSlotOf(replicasKey)].Load(); n != nil && !n.open.Load() {
		return n.client.Load()
	}
	return nil
}
