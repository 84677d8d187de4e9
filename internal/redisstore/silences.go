package redisstore

import (
	"context"
	"fmt"

	"github.com/weirlimit/weir/internal/limit"
)

// silenceKey begins the keys of the records of when regions were silent. They are on the node of
// replicasKey.
const silenceKey = replicasKey + ":silence:"

// silencesScript sets the records in ARGV, one for each of KEYS, but for those that are empty. It returns the
// time in seconds and microseconds, and all records.
const silencesScript = `
local reply = redis.call('TIME')
for i, key in ipairs(KEYS) do
  if ARGV[i] ~= '' then
    redis.call('SET', key, ARGV[i])
  end
  reply[i + 2] = redis.call('GET', key) or ''
end
return reply`

// Silences sets records of when regions were silent, in the order of their names; nil leaves one as it is. It
// returns the time of Redis in between, and all records, whichever aggregator that shares this Redis
// has set them; an empty one has not been set. After an error it is unknown which were set.
func (s *Store) Silences(ctx context.Context, regions []string, records [][]byte) (now limit.Micros, all [][]byte, err error) {
	client := s.replicasClient()
	if client == nil {
		return 0, nil, errNoNode
	}
	keys, args := make([]string, len(regions)), make([]any, len(regions))
	for i, region := range regions {
		keys[i], args[i] = silenceKey+region, records[i]
	}
	reply, err := client.Eval(ctx, silencesScript, keys, args...).StringSlice()
	if err != nil {
		return 0, nil, err
	}
	var seconds, micros int64
	if len(reply) != 2+len(regions) {
		return 0, nil, fmt.Errorf("redis: %d values, want the time and %d records", len(reply), len(regions))
	}
	if _, err := fmt.Sscan(reply[0]+" "+reply[1], &seconds, &micros); err != nil {
		return 0, nil, fmt.Errorf("redis: the time %q: %w", reply[:2], err)
	}
	for _, record := range reply[2:] {
		all = append(all, []byte(record))
	}
	return limit.Micros(seconds)*limit.Second + limit.Micros(micros), all, nil
}
