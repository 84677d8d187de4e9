package redisstore

import (
	"context"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
)

// receiptKey begins the keys of the records of receipts. They are on the node of replicasKey.
const receiptKey = replicasKey + ":receipt:"

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

func (r *receiptRecord) Receipt(ctx context.Context, renew bool) (now, newest limit.Micros, err error) {
	client := r.store.replicasClient()
	if client == nil {
		return 0, 0, errNoNode
	}
	write := 0
	if renew {
		write = 1
	}
	times, err := client.Eval(ctx, receiptScript, []string{r.key}, write).Int64Slice()
	if err != nil || len(times) != 2 {
		return 0, 0, errNoNode
	}
	return limit.Micros(times[0]), limit.Micros(times[1]), nil
}
