package main

import (
	"context"
	"fmt"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
)

// pipeline gathers what redis_rate sends, in order to send it together. To the
// limiter it is a Redis server that admits everything.
type pipeline struct {
	redis.Cmdable // of nothing: the limiter calls EvalSha alone
	client        *redis.Client
	gathered      redis.Pipeliner
	loaded        bool // the server has the script
	acquired      int
}

// EvalSha is what a limiter calls to run its script.
func (p *pipeline) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	p.gathered.EvalSha(ctx, sha, keys, args...)
	admitted := redis.NewCmd(ctx)
	admitted.SetVal([]any{int64(1), int64(1), "0", "0"}) // the limiter insists on its four results
	return admitted
}

// acquire acquires one unit of each key, in one pipeline.
func (p *pipeline) acquire(ctx context.Context, limit redis_rate.Limit, keys []string) error {
	if !p.loaded { // the limiter itself sends the script where it is missing
		if _, err := redis_rate.NewLimiter(p.client).Allow(ctx, keys[0], limit); err != nil {
			return err
		}
		p.loaded = true
	}
	p.gathered = p.client.Pipeline()
	limiter := redis_rate.NewLimiter(p)
	for _, key := range keys {
		if _, err := limiter.Allow(ctx, key, limit); err != nil {
			return err
		}
	}
	replies, err := p.gathered.Exec(ctx)
	if err != nil {
		return err
	}
	for _, reply := range replies {
		if values, ok := reply.(*redis.Cmd).Val().([]any); !ok || len(values) != 4 {
			return fmt.Errorf("the script answered %v", reply)
		}
	}
	p.acquired += len(keys)
	return nil
}
