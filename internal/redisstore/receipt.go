package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
)

const (
	// receiptKey begins the keys of the records of receipts. They are on the node of replicasKey.
	receiptKey = replicasKey + ":receipt:"
	// identityKey has the identity of this Redis in 16 hexadecimal digits. Whoever finds none sets one.
	identityKey = replicasKey + ":identity"
)

// receiptScript returns the time and when a reply of the aggregator was received last, both in
// microseconds. With ARGV[1] = 1, or if nothing is recorded, that is now.
const receiptScript = `
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local newest = redis.call('GET', KEYS[1])
if ARGV[1] == '1' or not newest then
  newest = string.format('%.0f', now)
  redis.call('SET', KEYS[1], newest)
end
return {now, tonumber(newest)}`

// receiptRecord is the record of a region whose replicas share this Redis.
type receiptRecord struct {
	store *Store
	key   string
}

// Receipts is where the replicas of a region record when the newest reply of the aggregator
// was received.
func (s *Store) Receipts(region string) limiter.Record {
	return &receiptRecord{store: s, key: receiptKey + region}
}

func (r *receiptRecord) Receipt(ctx context.Context, renew bool) (limiter.Receipt, error) {
	client := r.store.replicasClient()
	if client == nil {
		return limiter.Receipt{}, errNoNode
	}
	write := 0
	if renew {
		write = 1
	}
	var receipt, identity *redis.Cmd
	_, _ = client.Pipelined(ctx, func(p redis.Pipeliner) error {
		receipt = p.Eval(ctx, receiptScript, []string{r.key}, write)
		// Commands of their own: where this fails, as while a hash slot moves, the receipt must not.
		p.Do(ctx, "SET", identityKey, fmt.Sprintf("%016x", max(rand.Uint64(), 1)), "NX")
		identity = p.Do(ctx, "GET", identityKey)
		return nil
	})
	reply, err := receipt.Slice()
	if err != nil || len(reply) != 2 {
		return limiter.Receipt{}, errNoNode
	}
	now, _ := reply[0].(int64)
	newest, _ := reply[1].(int64)
	text, _ := identity.Text()                  // empty: it cannot be read
	store, _ := strconv.ParseUint(text, 16, 64) // 0: another program has written there
	return limiter.Receipt{Now: limit.Micros(now), Newest: limit.Micros(newest), Identity: store}, nil
}
