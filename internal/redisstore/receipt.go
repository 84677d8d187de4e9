package redisstore

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"

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
// microseconds, and the identity. With ARGV[1] = 1, or if nothing is recorded, the reply was received
// now. ARGV[2] is the identity if there is none. What fails of it must not fail the receipt.
const receiptScript = `
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local newest = redis.call('GET', KEYS[1])
if ARGV[1] == '1' or not newest then
  newest = string.format('%.0f', now)
  redis.call('SET', KEYS[1], newest)
end
local id = redis.pcall('GET', KEYS[2])
if not id then
  id = ARGV[2]
  if redis.pcall('SET', KEYS[2], id).err then
    id = ''
  end
end
return {now, tonumber(newest), type(id) == 'string' and id or ''}`

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
	reply, err := client.Eval(ctx, receiptScript, []string{r.key, identityKey}, write, fmt.Sprintf("%016x", max(rand.Uint64(), 1))).Slice()
	if err != nil || len(reply) != 3 {
		return limiter.Receipt{}, errNoNode
	}
	now, _ := reply[0].(int64)
	newest, _ := reply[1].(int64)
	text, _ := reply[2].(string)
	identity, _ := strconv.ParseUint(text, 16, 64) // 0: another program has written there
	return limiter.Receipt{Now: limit.Micros(now), Newest: limit.Micros(newest), Identity: identity}, nil
}
