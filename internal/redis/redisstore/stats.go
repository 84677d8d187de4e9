package redisstore

import (
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/redis/topology"
	"github.com/weirlimit/weir/internal/telemetry"
)

// reason is why an ask was answered Unavailable. The zero value, none: it was not.
type reason uint8

// The reasons.
const (
	none        reason = iota
	queueFull          // too many asks wait for its node
	breakerOpen        // the breaker of its node is open
	timedOut           // its node did not answer in time
	network            // its node could not be reached, the connection broke, or its node is unknown
	moved              // its hash slot is being moved, or its node does not serve it: it loads, is a replica, or waits for the cluster
	full               // Redis has no memory for a new counter
	deadline           // the caller's deadline passed
	rejected           // Redis rejected the command; the log has the error
	foreign            // the key has a value that no release of Weir wrote; the log names it
	reasons
)

var reasonNames = [reasons]string{"none", "queue_full", "breaker", "timeout", "network", "moved", "full", "deadline", "server", "foreign"}

// Stats counts what a store did since it was made, and describes its present state.
type Stats struct {
	Calls, Asks uint64 // of Acquire
	// Pipelines counts the pipelines with asks, Commands the scripts in them: more than
	// Asks where groups are asked twice.
	Pipelines, Commands uint64
	Unavailable         map[string]uint64 // by reason, a label of weir_redis_unavailable_total
	Queued              int               // asks that wait for a lane
	Replicas            int               // see [Store.Replicas]
	topology.Stats
}

// counters are the parts of Stats that count.
type counters struct {
	calls, asks, pipelines, commands atomic.Uint64
	unavailable                      [reasons]atomic.Uint64
}

// Stats returns the counts. Each number is right, but they are not of the same moment.
func (s *Store) Stats() Stats {
	c := &s.counters
	st := Stats{
		Calls: c.calls.Load(), Asks: c.asks.Load(),
		Pipelines: c.pipelines.Load(), Commands: c.commands.Load(),
		Unavailable: map[string]uint64{},
		Queued:      s.queued(),
		Replicas:    s.Replicas(),
		Stats:       s.topology.Stats(),
	}
	for r := queueFull; r < reasons; r++ {
		if n := c.unavailable[r].Load(); n > 0 {
			st.Unavailable[reasonNames[r]] = n
		}
	}
	return st
}

// queued returns how many asks wait for a lane.
func (s *Store) queued() (n int) {
	for _, master := range s.topology.Masters() {
		n += senderOf(master).queue.len()
	}
	return n
}

// Observe declares the store's metrics. Call it once, before Run.
func (s *Store) Observe(r *telemetry.Registry) {
	s.topology.Observe(r)
	c := &s.counters
	count := func(name, help string, n *atomic.Uint64) {
		r.CounterFunc(name, help, func() float64 { return float64(n.Load()) })
	}
	count("weir_redis_calls_total", "Calls of the store, one for each request or batch.", &c.calls)
	count("weir_redis_asks_total", "Asks of these calls, one for each counter.", &c.asks)
	count("weir_redis_pipelines_total", "Pipelines sent to Redis.", &c.pipelines)
	count("weir_redis_commands_total", "Scripts run by these pipelines.", &c.commands)
	unavailable := r.Counters("weir_redis_unavailable_total", "Asks that could not be decided, by reason.", "reason")
	for why := queueFull; why < reasons; why++ {
		s.metrics.unavailable[why] = unavailable.WithLabelValues(reasonNames[why])
	}
	r.GaugeFunc("weir_redis_queued", "Asks that wait for a node.", func() float64 { return float64(s.queued()) })
	r.GaugeFunc("weir_redis_replicas", "Replicas of this service that were alive when Redis last answered.", func() float64 { return float64(s.Replicas()) })
	s.metrics.seconds = r.Histogram("weir_redis_pipeline_seconds", "Time from sending a pipeline to its last reply.", telemetry.Doubling(50e-6, 14))
	s.metrics.length = r.Histogram("weir_redis_pipeline_asks", "Asks per pipeline.", telemetry.Doubling(1, 8))
}

// metrics are the instruments of a registry; nil without one.
type metrics struct {
	seconds, length telemetry.Histogram
	unavailable     [reasons]telemetry.Counter
}

// unavailable counts an ask that could not be decided.
func (s *Store) unavailable(r reason) {
	s.counters.unavailable[r].Add(1)
	if m := s.metrics.unavailable[r]; m != nil {
		m.Inc()
	}
}

// observe counts a pipeline of so many asks.
func (s *Store) observe(asks int, took time.Duration) {
	s.counters.pipelines.Add(1)
	s.counters.commands.Add(uint64(asks))
	if m := &s.metrics; m.seconds != nil {
		m.seconds.Observe(took.Seconds())
		m.length.Observe(float64(asks))
	}
}
