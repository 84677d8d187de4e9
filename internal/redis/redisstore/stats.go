package redisstore

import (
	"time"

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

// metrics are the instruments of a store.
type metrics struct {
	calls, asks, pipelines, commands telemetry.Counter
	seconds, length                  telemetry.Histogram
	unavailable                      [reasons]telemetry.Counter
}

// observe declares the metrics of the store.
func (s *Store) observe() {
	r := s.topology.Config.Metrics
	s.metrics = metrics{
		calls:     r.Counter("weir_redis_calls_total", "Calls of the store, one for each request or batch."),
		asks:      r.Counter("weir_redis_asks_total", "Asks of these calls, one for each counter."),
		pipelines: r.Counter("weir_redis_pipelines_total", "Pipelines sent to Redis."),
		commands:  r.Counter("weir_redis_commands_total", "Scripts run by these pipelines."),
		seconds:   r.Histogram("weir_redis_pipeline_seconds", "Time from sending a pipeline to its last reply.", telemetry.Doubling(50e-6, 14)),
		length:    r.Histogram("weir_redis_pipeline_asks", "Asks per pipeline.", telemetry.Doubling(1, 8)),
	}
	unavailable := r.Counters("weir_redis_unavailable_total", "Asks that could not be decided, by reason.", "reason")
	for why := queueFull; why < reasons; why++ {
		s.metrics.unavailable[why] = unavailable.WithLabelValues(reasonNames[why])
	}
	r.GaugeFunc("weir_redis_queued", "Asks that wait for a node.", func() (n float64) {
		for _, master := range s.topology.Masters() {
			n += float64(senderOf(master).queue.len())
		}
		return n
	})
	r.GaugeFunc("weir_redis_replicas", "Replicas of this service that were alive when Redis last answered.", func() float64 { return float64(s.Replicas()) })
}

// unavailable counts an ask that could not be decided.
func (s *Store) unavailable(r reason) { s.metrics.unavailable[r].Inc() }

// observed counts a pipeline of so many asks.
func (s *Store) observed(asks int, took time.Duration) {
	s.metrics.pipelines.Inc()
	s.metrics.commands.Add(float64(asks))
	s.metrics.seconds.Observe(took.Seconds())
	s.metrics.length.Observe(float64(asks))
}
