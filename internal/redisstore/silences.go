package redisstore

import (
	"context"
	"fmt"

	"github.com/weirlimit/weir/internal/aggregator"
	"github.com/weirlimit/weir/internal/limit"
)

// silenceKey begins the keys of the records of when regions were silent. They are on the node of
// replicasKey.
const silenceKey = replicasKey + ":silence:"

// silencesScript sets the records in ARGV from the second one on, one for each of KEYS, but for those that are
// empty, and only if the time is in the second after the first of ARGV, in microseconds. It returns the
// time in seconds and microseconds, whether it was in that second, and the records before.
const silencesScript = `
local reply = redis.call('TIME')
local since = reply[1] * 1000000 + reply[2] - tonumber(ARGV[1])
local set = since >= 0 and since < 1000000
reply[3] = set and '1' or '0'
for i, key in ipairs(KEYS) do
  reply[i + 3] = redis.call('GET', key) or ''
  if set and ARGV[i + 1] ~= '' then
    redis.call('SET', key, ARGV[i + 1])
  end
end
return reply`

// Silences is a [aggregator.Exchange] of the aggregators that share this Redis, by its clock. After an error it is
// unknown which records were set.
func (s *Store) Silences(ctx context.Context, e aggregator.Records) (aggregator.Exchanged, error) {
	client := s.replicasClient()
	if client == nil {
		return aggregator.Exchanged{}, errNoNode
	}
	keys, args := make([]string, len(e.Regions)), []any{int64(e.After)}
	for i, region := range e.Regions {
		keys[i], args = silenceKey+region, append(args, e.Set[i])
	}
	reply, err := client.Eval(ctx, silencesScript, keys, args...).StringSlice()
	if err != nil {
		return aggregator.Exchanged{}, err
	}
	if len(reply) != 3+len(keys) {
		return aggregator.Exchanged{}, fmt.Errorf("redis: %d values, want the time and %d records", len(reply), len(keys))
	}
	var seconds, micros int64
	if _, err := fmt.Sscan(reply[0]+" "+reply[1], &seconds, &micros); err != nil {
		return aggregator.Exchanged{}, fmt.Errorf("redis: the time %q: %w", reply[:2], err)
	}
	got := aggregator.Exchanged{Now: limit.Micros(seconds)*limit.Second + limit.Micros(micros), WasSet: reply[2] == "1"}
	for _, record := range reply[3:] {
		got.Found = append(got.Found, []byte(record))
	}
	return got, nil
}
