package topology

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/repeat"
	"github.com/weirlimit/weir/internal/telemetry"
)

// metrics are what operators see of a topology beside its memory.
type metrics struct{ redirects, reloads, opened, evicted telemetry.Counter }

// observe declares the metrics of the topology.
func (t *Topology) observe() {
	r := t.Config.Metrics
	t.metrics = metrics{
		redirects: r.Counter("weir_redis_redirects_total", "Scripts sent again after MOVED or ASK."),
		reloads:   r.Counter("weir_redis_topology_reloads_total", "Look-ups of the masters."),
		opened:    r.Counter("weir_redis_breaker_opened_total", "How often the breaker of a node opened."),
		evicted:   r.Counter("weir_redis_evicted_keys_total", "Keys that masters evicted: their counters begin anew."),
	}
	r.GaugeFunc("weir_redis_masters", "Nodes that serve keys.", func() float64 { return float64(len(t.Masters())) })
	r.GaugeFunc("weir_redis_breakers_open", "Of these, nodes whose breaker is open because they do not answer.", func() (n float64) {
		for _, master := range t.Masters() {
			n += float64(limit.Bit(master.Open()))
		}
		return n
	})
	memory := func(name, help string, value func(Memory) float64) {
		r.GaugeFunc(name, help, func() float64 { return value(t.Memory()) })
	}
	memory("weir_redis_memory_known", "Masters that state their memory.", func(m Memory) float64 { return float64(m.Known) })
	memory("weir_redis_memory_bytes", "Memory that these use.", func(m Memory) float64 { return float64(m.Used) })
	memory("weir_redis_memory_limit_bytes", "Their maxmemory; masters without one add none.", func(m Memory) float64 { return float64(m.Limit) })
	memory("weir_redis_memory_fullest_ratio", "Memory of the fullest master as a part of its maxmemory; 0 if no master has one.", func(m Memory) float64 { return m.Fullest })
}

// Memory describes the memory of all masters together.
type Memory struct {
	Known       int     // masters that state their memory
	Used, Limit uint64  // bytes of these; masters without a limit add none to Limit
	Fullest     float64 // used ÷ limit of the master that is fullest; 0: no master has a limit
}

// Memory returns what the masters stated last, some seconds ago.
func (t *Topology) Memory() (all Memory) {
	for _, n := range t.Masters() {
		m := n.memory.Load()
		if m == nil {
			continue
		}
		all.Known++
		all.Used += m.used
		all.Limit += m.limit
		if m.limit > 0 {
			all.Fullest = max(all.Fullest, float64(m.used)/float64(m.limit))
		}
	}
	return all
}

// memoryEvery is the time between two looks at the memory of a node. A node that
// fills within seconds is noticed by what it rejects.
const memoryEvery = 5 * time.Second

// memory is what a node states of its memory.
type memory struct {
	used, limit uint64 // bytes; a limit of 0: none is set
	evicted     uint64 // keys, since the node started
}

// measure reads the node's memory periodically until ctx ends. It has a goroutine of its
// own: a node that hangs must not delay its probes.
func (n *Node) measure(ctx context.Context) {
	logged := false
	for {
		if !n.Open() {
			m, err := readMemory(ctx, n.client.Load())
			switch {
			case err == nil:
				n.noteMemory(m)
			case isReply(err):
				n.memory.Store(nil)
				if !logged {
					logged = true // it lasts: an ACL without INFO
					n.topology.Config.Log.Info("redis does not report its memory; weir_redis_memory_* leave it out", "addr", n.Addr, "error", n.topology.Config.Advised(err))
				}
			}
		}
		if !repeat.Sleep(ctx, repeat.Jittered(memoryEvery)) {
			return
		}
	}
}

// noteMemory keeps m, and counts the keys that were evicted since the last look. A node
// that counts fewer than before has started again.
func (n *Node) noteMemory(m memory) {
	if before := n.memory.Swap(&m); before != nil {
		fresh := m.evicted
		if fresh >= before.evicted {
			fresh -= before.evicted
		}
		n.topology.metrics.evicted.Add(float64(fresh))
	}
}

var errNoMemory = errors.New("redis: INFO has no used_memory, maxmemory or evicted_keys")

// readMemory asks a node for its memory.
func readMemory(ctx context.Context, client *redis.Client) (memory, error) {
	pipe := client.Pipeline()
	about, stats := pipe.Info(ctx, "memory"), pipe.Info(ctx, "stats")
	if _, err := pipe.Exec(ctx); err != nil {
		return memory{}, err
	}
	of, counts := fields(about.Val()), fields(stats.Val())
	used, err1 := strconv.ParseUint(of["used_memory"], 10, 64)
	limit, err2 := strconv.ParseUint(of["maxmemory"], 10, 64)
	evicted, err3 := strconv.ParseUint(counts["evicted_keys"], 10, 64)
	if errors.Join(err1, err2, err3) != nil {
		return memory{}, errNoMemory
	}
	return memory{used, limit, evicted}, nil
}
