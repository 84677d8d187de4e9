package redisstore

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/limit"
)

// The keys of cells are on the node of replicasKey.
const (
	// recordKey begins the keys of the records of the reserves of regions.
	recordKey = replicasKey + ":reserve:"
	// sharesKey has what the aggregators on this Redis know of the shares of regions.
	sharesKey = replicasKey + ":shares"
)

// cellScript stores ARGV[2], if there is one, where ARGV[1] is stored; empty: where nothing is. It returns the
// time in seconds and microseconds, and what was stored before.
const cellScript = `
local t = redis.call('TIME')
local found = redis.call('GET', KEYS[1]) or ''
if ARGV[2] ~= '' and found == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2])
end
return {t[1], t[2], found}`

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
	client := c.store.replicasClient()
	if client == nil {
		return nil, 0, errNoNode
	}
	reply := client.Eval(ctx, cellScript, []string{c.key}, old, next)
	switch kind, addr := replyKindOf(reply.Err()); kind {
	case ask: // the key moves to another node: this one did not run the script
		if reply = c.there(ctx, addr, old, next); reply == nil {
			return nil, 0, errNoNode
		}
	case moved, stale:
		c.store.requestReload()
	}
	return parseCell(reply)
}

// there asks another node, only this time; nil: it is not known.
func (c *cell) there(ctx context.Context, addr string, old, next []byte) *redis.Cmd {
	if from := c.store.table[hashSlotOf(replicasKey)].Load(); from != nil {
		addr = fullAddress(addr, from.addr)
	}
	node := c.store.node(addr)
	if node == nil || node.open.Load() {
		return nil
	}
	pipe := node.client.Load().Pipeline()
	_ = pipe.Process(ctx, redis.NewStatusCmd(ctx, "ASKING"))
	reply := pipe.Eval(ctx, cellScript, []string{c.key}, old, next)
	_, _ = pipe.Exec(ctx) // the error is that of the reply
	return reply
}

// parseCell reads what cellScript returned.
func parseCell(reply *redis.Cmd) (found []byte, now limit.Micros, err error) {
	values, err := reply.StringSlice()
	if err != nil {
		return nil, 0, err
	}
	var seconds, micros int64
	if len(values) != 3 {
		return nil, 0, errNoReply
	}
	if _, err := fmt.Sscan(values[0]+" "+values[1], &seconds, &micros); err != nil {
		return nil, 0, fmt.Errorf("redis: the time %q: %w", values[:2], err)
	}
	if values[2] != "" {
		found = []byte(values[2])
	}
	return found, limit.Micros(seconds)*limit.Second + limit.Micros(micros), nil
}
