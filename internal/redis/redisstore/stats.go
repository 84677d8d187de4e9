package redisstore

import (
	"sync/atomic"

	"github.com/weirlimit/weir/internal/telemetry"
)

// Reason is why an ask was answered Unavailable. The zero value, None: it was not.
type Reason uint8

// The reasons.
const (
	None      Reason = iota
	QueueFull        // too many asks wait for its node
	Breaker          // the breaker of its node is open
	Timeout          // its node did not answer in time
	Network          // its node could not be reached, the connection broke, or its node is unknown
	Moved            // its hash slot is being moved, or its node does not serve it: it loads, is a replica, or waits for the cluster
	Full             // Redis has no memory for a new counter
	Deadline         // the caller's deadline passed
	Server           // Redis refused the command; the log has the error
	Foreign          // the key has a value that no release of Weir wrote; the log names it
	reasons
)

var reasonNames = [reasons]string{"none", "queue_full", "breaker", "timeout", "network", "moved", "full", "deadline", "server", "foreign"}

func (r Reason) String() string { return reasonNames[min(r, reasons-1)] }

// Stats counts what a store did since it was made, and describes its present state.
type Stats struct {
	Calls, Asks uint64 // of Acquire
	// Pipelines counts the pipelines with asks, Commands the scripts in them: more than
	// Asks where groups are asked twice.
	Pipelines, Commands uint64
	Redirects           uint64 // scripts that were sent again to another node
	Reloads             uint64 // look-ups of the topology, successful or not
	Opened              uint64 // how often a breaker opened
	Unavailable         [reasons]uint64
	Masters             int // nodes that serve keys
	Open                int // of these, nodes whose breaker is open
	Queued              int // asks that wait for a lane
	Replicas            int // see [Store.Replicas]
}

// counters are the parts of Stats that count.
type counters struct {
	calls, asks, pipelines, commands, redirects, reloads, opened, evicted atomic.Uint64
	unavailable                                                           [reasons]atomic.Uint64
}

// Stats returns the counts. Each number is right, but they are not of the same moment.
func (s *Store) Stats() Stats {
	c := &s.counters
	st := Stats{
		Calls: c.calls.Load(), Asks: c.asks.Load(),
		Pipelines: c.pipelines.Load(), Commands: c.commands.Load(),
		Redirects: c.redirects.Load(), Reloads: c.reloads.Load(), Opened: c.opened.Load(),
		Replicas: s.Replicas(),
	}
	for r := range st.Unavailable {
		st.Unavailable[r] = c.unavailable[r].Load()
	}
	for _, n := range s.serving() {
		st.Masters++
		st.Queued += n.queue.len()
		if n.open.Load() {
			st.Open++
		}
	}
	return st
}

// Observe declares the store's metrics. Call it once, before Run.
func (s *Store) Observe(r *telemetry.Registry) {
	c := &s.counters
	count := func(name, help string, n *atomic.Uint64) {
		r.CounterFunc(name, help, func() float64 { return float64(n.Load()) })
	}
	count("weir_redis_calls_total", "Calls of the store, one for each request or batch.", &c.calls)
	count("weir_redis_asks_total", "Asks of these calls, one for each counter.", &c.asks)
	count("weir_redis_pipelines_total", "Pipelines sent to Redis.", &c.pipelines)
	count("weir_redis_commands_total", "Scripts run by these pipelines.", &c.commands)
	count("weir_redis_redirects_total", "Scripts sent again after MOVED or ASK.", &c.redirects)
	count("weir_redis_topology_reloads_total", "Look-ups of the masters.", &c.reloads)
	count("weir_redis_breaker_opened_total", "How often the breaker of a node opened.", &c.opened)
	count("weir_redis_evicted_keys_total", "Keys that masters evicted: their counters begin anew.", &c.evicted)
	unavailable := r.Counters("weir_redis_unavailable_total", "Asks that could not be decided, by reason.", "reason")
	for reason := QueueFull; reason < reasons; reason++ {
		s.metrics.unavailable[reason] = unavailable.WithLabelValues(reason.String())
	}
	gauge := func(name, help string, value func(Stats) int) {
		r.GaugeFunc(name, help, func() float64 { return float64(value(s.Stats())) })
	}
	gauge("weir_redis_masters", "Nodes that serve keys.", func(st Stats) int { return st.Masters })
	gauge("weir_redis_breakers_open", "Of these, nodes whose breaker is open because they do not answer.", func(st Stats) int { return st.Open })
	gauge("weir_redis_queued", "Asks that wait for a node.", func(st Stats) int { return st.Queued })
	gauge("weir_redis_replicas", "Replicas of this service that were alive when Redis last answered.", func(st Stats) int { return st.Replicas })
	memory := func(name, help string, value func(Memory) float64) {
		r.GaugeFunc(name, help, func() float64 { return value(s.Memory()) })
	}
	memory("weir_redis_memory_known", "Masters that state their memory.", func(m Memory) float64 { return float64(m.Known) })
	memory("weir_redis_memory_bytes", "Memory that these use.", func(m Memory) float64 { return float64(m.Used) })
	memory("weir_redis_memory_limit_bytes", "Their maxmemory; masters without one add none.", func(m Memory) float64 { return float64(m.Limit) })
	memory("weir_redis_memory_fullest_ratio", "Memory of the fullest master as a part of its maxmemory; 0 if no master has one.", func(m Memory) float64 { return m.Fullest })
	s.metrics.seconds = r.Histogram("weir_redis_pipeline_seconds", "Time from sending a pipeline to its last reply.", telemetry.Doubling(50e-6, 14))
	s.metrics.length = r.Histogram("weir_redis_pipeline_asks", "Asks per pipeline.", telemetry.Doubling(1, 8))
}

// metrics are the instruments of a registry; nil without one.
type metrics struct {
	seconds, length telemetry.Histogram
	unavailable     [reasons]telemetry.Counter
}

// unavailable counts an ask that could not be decided.
func (s *Store) unavailable(r Reason) {
	s.counters.unavailable[r].Add(1)
	if m := s.metrics.unavailable[r]; m != nil {
		m.Inc()
	}
}
