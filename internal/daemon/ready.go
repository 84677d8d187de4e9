package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/weirlimit/weir/internal/admin"
	"github.com/weirlimit/weir/internal/redis/redisstore"
)

// redisSilent is why a process is not ready before Redis has answered.
const redisSilent = "redis has not answered yet"

// awaitRedis takes redisSilent back when Redis has answered once. After that a failure
// of Redis is handled by each rule's on_failure, which only a replica in service can apply.
func awaitRedis(ctx context.Context, s *redisstore.Store, ready *admin.Readiness, log *slog.Logger) error {
	const patience = 2 * time.Second
	reason := redisSilent
	for {
		attempt, cancel := context.WithTimeout(ctx, patience)
		err := s.Ready(attempt)
		cancel()
		if err == nil || ctx.Err() != nil {
			ready.Allow(reason)
			return nil
		}
		if now := err.Error(); now != reason {
			log.Error("not ready", "reason", now)
			ready.Refuse(now)
			ready.Allow(reason)
			reason = now
		}
	}
}

// newReadiness refuses readiness for a configuration that cannot work.
func newReadiness(cfg *Config, log *slog.Logger) *admin.Readiness {
	ready := new(admin.Readiness)
	if cfg.Replicas > 1 && len(cfg.Redis) == 0 {
		reason := fmt.Sprintf("replicas: %d, but counters are in this process's memory, which replicas do not share: each would grant the whole limit; run one replica, or give them a shared store with --redis", cfg.Replicas)
		ready.Refuse(reason)
		log.Error("not ready", "reason", reason)
	}
	return ready
}
