package redisstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/topology"
)

// What replicas share besides counters is on one node.
const (
	// replicasKey is a sorted set of the replicas; the score is the time of the last
	// heartbeat. The hash slot of the other keys is that of this one.
	replicasKey = "weir:{replicas}"
	// holdersKey is a sorted set of the holders that call any replica; the score is the
	// time of the last report.
	holdersKey = replicasKey + ":holders"
	// recordKey begins the keys of the records of the reserves of regions.
	recordKey = replicasKey + ":reserve:"
	// sharesKey has what the aggregators on this Redis know of the shares of regions.
	sharesKey = replicasKey + ":shares"
)

var errNoNode = errors.New("redis: the node with the replicas' shared data does not answer")

// sharedNode returns the node of what replicas share; nil: it is unknown, or does not answer.
func (s *Store) sharedNode() *topology.Node {
	if n := s.topology.At(topology.SlotOf(replicasKey)); n != nil && !n.Open() {
		return n
	}
	return nil
}

// eval runs a script on a key that replicas share. It is sent again only to where the node that
// did not run it redirects it.
func (s *Store) eval(ctx context.Context, source, key string, args ...any) *redis.Cmd {
	n := s.sharedNode()
	if n == nil {
		reply := redis.NewCmd(ctx)
		reply.SetErr(errNoNode)
		return reply
	}
	reply := n.Client().Eval(ctx, source, []string{key}, args...)
	switch r := topology.ReplyOf(reply.Err()); r.Kind {
	case topology.Moved, topology.Ask:
		if to := n.Follow(r, topology.SlotOf(key)); to != nil && !to.Open() {
			pipe := to.Client().Pipeline()
			_ = pipe.Process(ctx, redis.NewStatusCmd(ctx, "ASKING")) // after MOVED it has no effect
			reply = pipe.Eval(ctx, source, []string{key}, args...)
			_, _ = pipe.Exec(ctx) // the error is that of the reply
		}
	case topology.Stale, topology.NoReply:
		s.topology.Reload()
	}
	return reply
}

// cellScript stores ARGV[2], if there is one, where ARGV[1] is stored; empty: where nothing is. It
// returns the time in seconds and microseconds, and what was stored before.
const cellScript = `
local t = redis.call('TIME')
local found = redis.call('GET', KEYS[1]) or ''
if ARGV[2] ~= '' and found == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2])
end
return {t[1], t[2], found}`

// probeScript calls every command of the scripts and of the heartbeat. An ACL, or another server than
// Redis, may lack any of them. The key is gone when it returns; where one is rejected, within a second.
const probeScript = `
local key = KEYS[1]
for _, call in ipairs({
  {'TIME'},
  {'SET', key, 'x', 'PX', 1000}, {'GET', key}, {'GETRANGE', key, 0, 0}, {'SETRANGE', key, 0, 'x'}, {'PEXPIRE', key, 0},
  {'ZADD', key, 1, 'x'}, {'PEXPIRE', key, 1000}, {'ZCARD', key}, {'ZREMRANGEBYSCORE', key, 2, 2}, {'ZREM', key, 'x'},
  {'HSET', key, 'x', 'x'}, {'PEXPIRE', key, 1000}, {'HSCAN', key, 0}, {'HDEL', key, 'x'},
}) do
  local done = redis.pcall(unpack(call))
  if type(done) == 'table' and done.err then
    return redis.error_reply('ERR cannot call ' .. call[1] .. ' in a script: ' .. done.err)
  end
end
return 1`

// cell is a value in this Redis.
type cell struct {
	store *Store
	key   string
}

// Record is the cell of the record of a region's reserve, for all replicas of the region.
func (s *Store) Record(region string) engine.Cell { return &cell{store: s, key: recordKey + region} }

// Shares is the cell of all aggregators on this Redis.
func (s *Store) Shares() engine.Cell { return &cell{store: s, key: sharesKey} }

func (c *cell) Swap(ctx context.Context, old, next []byte) (found []byte, now limit.Micros, err error) {
	values, err := c.store.eval(ctx, cellScript, c.key, old, next).StringSlice()
	if err != nil {
		return nil, 0, err
	}
	if len(values) != 3 {
		return nil, 0, fmt.Errorf("redis: a cell of %d values", len(values))
	}
	var seconds, micros int64
	if _, err := fmt.Sscan(values[0]+" "+values[1], &seconds, &micros); err != nil {
		return nil, 0, fmt.Errorf("redis: the time %q: %w", values[:2], err)
	}
	if values[2] != "" {
		found = []byte(values[2])
	}
	return found, limit.Micros(seconds)*limit.Second + limit.Micros(micros), nil
}
