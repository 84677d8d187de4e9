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

// Replicas is how many replicas of the service share this Redis, this one included:
// the last number known, also while Redis is away. 0: it was never known.
func (s *Store) Replicas() int { return int(s.replicas.Load()) }

// beat says every second that this replica is alive, and in the end that it is not.
func (s *Store) beat(ctx context.Context) {
	id := rand.Text()
	for {
		pause := jittered(beatEvery)
		if n, err := s.sayAlive(ctx, id); err == nil {
			s.replicas.Store(n)
		} else if s.replicas.Load() == 0 {
			pause = jittered(beatEvery / 20) // at the start: as soon as there is a node
		}
		if !sleep(ctx, pause) {
			break
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.Timeout)
	defer cancel()
	if client := s.replicasClient(); client != nil {
		_ = client.ZRem(ctx, replicasKey, id).Err() // else the others notice in a while
	}
}

func (s *Store) sayAlive(ctx context.Context, id string) (int64, error) {
	client := s.replicasClient()
	if client == nil {
		return 0, errors.New("redis: no node")
	}
	n, err := client.Eval(ctx, beatScript, []string{replicasKey}, id, goneAfter.Milliseconds()).Int64()
	if err != nil && isReply(err) {
		s.requestReload() // it may have moved
	}
	return n, err
}

// replicasClient is a client of the node of replicasKey; nil if none answers.
func (s *Store) replicasClient() *redis.Client {
	if n := s.table[slotOf(replicasKey)].Load(); n != nil && !n.open.Load() {
		return n.client.Load()
	}
	return nil
}
