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
	var receipt *redis.Cmd
	var identity *redis.StringCmd
	_, _ = client.Pipelined(ctx, func(p redis.Pipeliner) error {
		receipt = p.Eval(ctx, receiptScript, []string{r.key}, write)
		// Commands of their own: where this fails, as while a hash slot moves, the receipt must not.
		p.SetArgs(ctx, identityKey, fmt.Sprintf("%016x", max(rand.Uint64(), 1)), redis.SetArgs{Mode: "NX"})
		identity = p.Get(ctx, identityKey)
		return nil
	})
	times, err := receipt.Int64Slice()
	if err != nil || len(times) != 2 {
		return limiter.Receipt{}, errNoNode
	}
	store, _ := strconv.ParseUint(identity.Val(), 16, 64) // 0: it cannot be read, or another program has written there
	return limiter.Receipt{Now: limit.Micros(times[0]), Newest: limit.Micros(times[1]), Identity: store}, nil
}
