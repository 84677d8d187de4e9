package redisstore

import (
	"cmp"
	"fmt"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/internal/telemetry"
)

// Defaults of a [Config].
const (
	DefaultLanes = 2
	defaultQueue = 4096
)

// Config is where Redis is and how it is used.
type Config struct {
	Redis topology.Config

	// Lanes is how many pipelines may be in flight to a node at once, each on its own
	// connection (and at times two more connections); 0 means 2. More lanes make shorter
	// pipelines, which cost both sides more CPU.
	Lanes int
	// Queue is how many asks may wait for a node; 0 means 4096, some 40 ms of a
	// Redis core. Asks beyond that are Unavailable at once.
	Queue int

	// Now is the clock of the counters, for tests. Nil means each server's own,
	// which is the only one that replicas share.
	Now func() limit.Micros
	// Tracer makes the spans of pipelines; nil: there are none.
	Tracer *telemetry.Tracer
}

// complete fills in defaults, and rejects what is out of range.
func (c Config) complete() (Config, error) {
	switch {
	case c.Lanes < 0 || c.Lanes > 64:
		return c, fmt.Errorf("redis: %d lanes: 1 to 64, 0 for %d", c.Lanes, DefaultLanes)
	case c.Queue < 0 || c.Queue > 1<<20:
		return c, fmt.Errorf("redis: queue of %d: 1 to %d, 0 for %d", c.Queue, 1<<20, defaultQueue)
	}
	c.Lanes = cmp.Or(c.Lanes, DefaultLanes)
	c.Queue = cmp.Or(c.Queue, defaultQueue)
	return c, nil
}
