package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// beatEvery is how often a replica says that it is alive, and goneAfter from
	// when on it counts no more: three beats that did not arrive.
	beatEvery = time.Second
	goneAfter = 3500 * time.Millisecond
	// heartQuiet is how long no beat must have been refused until one is logged again.
	heartQuiet = time.Minute
	// replicasKey holds the replicas, by when they were last heard of.
	replicasKey = "weir:{replicas}"
)

// beatScript notes that a replica is alive, forgets those that have not been heard
// of for a while, and counts. ARGV: the replica, and that while in milliseconds.
const beatScript = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('ZCARD', KEYS[1])`

// census is how many replicas are alive. After Redis lost its data the first replica
// that beats finds nobody else, and the second only the first: were they to believe
// it, and Redis to fail again, each would hand out the whole of what they share, for
// as long as a window. So a number that fell is believed only when everybody has had
// goneAfter since to say that it lives. Times are of a monotonic clock.
//
// Invariant: replicas never falls within goneAfter of a fall of what beats tell, of a
// beat that failed, or of a silence of that length.
type census struct {
	replicas int64         // 0: never known
	told     int64         // by the last beat that was answered
	last     time.Duration // when that was
	gap      bool          // a beat since failed
	since    time.Duration // when the number fell last, or the last gap ended
}

// heard takes the number that a beat was answered with at now.
func (c *census) heard(replicas int64, now time.Duration) {
	if replicas < c.told || c.gap || now-c.last > goneAfter {
		c.since = now
	}
	c.told, c.last, c.gap = replicas, now, false
	if replicas >= c.replicas || now-c.since >= goneAfter {
		c.replicas = replicas
	}
}

// missed notes that a beat failed: who knows whose else did.
func (c *census) missed() { c.gap = true }

// Replicas is how many replicas of the service share this Redis, this one included:
// the last number known, also while Redis is away. It rises at once, and falls after
// some four seconds in which Redis answered. 0: it was never known.
func (s *Store) Replicas() int { return int(s.replicas.Load()) }

// heart is how this replica says that it is alive. It belongs to the goroutine of beat.
type heart struct {
	store      *Store
	id         string
	census     census
	tally      tally
	quietUntil time.Duration // when to log again that a beat is refused
}

// beat says every second that this replica is alive, and in the end that it is not.
func (s *Store) beat(ctx context.Context) {
	h := heart{store: s, id: rand.Text(), tally: tally{told: map[uint64]time.Duration{}}}
	for sleep(ctx, h.once(ctx)) {
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.Timeout)
	defer cancel()
	if client := s.replicasClient(); client != nil {
		_ = client.ZRem(ctx, replicasKey, h.id).Err() // else the others notice in a while
	}
}

// once beats, and returns how long to wait with the next beat.
func (h *heart) once(ctx context.Context) time.Duration {
	n, err := h.say(ctx)
	if err == nil {
		h.census.heard(n, time.Since(h.store.began))
		h.store.replicas.Store(h.census.replicas)
		if client := h.store.replicasClient(); client != nil && h.store.live != nil {
			h.tellHolders(ctx, client)
		}
		return jittered(beatEvery)
	}
	h.census.missed()
	if h.census.replicas == 0 && !isReply(err) {
		return jittered(beatEvery / 20) // at the start: as soon as a node answers
	}
	return jittered(beatEvery)
}

var errNoNode = errors.New("redis: no node for the heartbeat answers")

// say says that this replica is alive, and returns how many are.
func (h *heart) say(ctx context.Context) (int64, error) {
	client := h.store.replicasClient()
	if client == nil {
		return 0, errNoNode
	}
	n, err := client.Eval(ctx, beatScript, []string{replicasKey}, h.id, goneAfter.Milliseconds()).Int64()
	switch v, _ := verdictOf(err); v {
	case done:
	case full, refused: // by the master of the key: it is where it was
		h.complain(err)
	default:
		h.store.requestReload()
	}
	return n, err
}

// complain logs that a beat is refused, unless that was logged shortly before: a
// refusal mostly lasts, or comes and goes.
func (h *heart) complain(err error) {
	now := time.Since(h.store.began)
	if now >= h.quietUntil {
		h.store.config.Log.Warn("redis refuses the heartbeat: replicas that come and go are not noticed",
			"replicas", h.census.replicas, "error", h.store.config.advised(err))
	}
	h.quietUntil = now + heartQuiet
}

// replicasClient is a client of the node of replicasKey; nil if none answers.
func (s *Store) replicasClient() *redis.Client {
	if n := s.table[slotOf(replicasKey)].Load(); n != nil && !n.open.Load() {
		return n.client.Load()
	}
	return nil
}
