package daemon

import (
	"cmp"
	"context"
	"crypto/rand"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/proto"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/memory"
	"github.com/weirlimit/weir/internal/leasecache"
	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/internal/redis/redisstore"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/version"
	"github.com/weirlimit/weir/internal/wire"
)

// counters are the store that the configuration names: one in Redis, or one in memory, with
// the file that keeps it through a restart.
type counters struct {
	engine.Store
	redis      *redisstore.Store // nil: they are in memory
	memory     *memory.Store     // nil: they are in Redis
	snapshots  *snapshotter      // nil: the counters in memory end with the process
	configured int               // replicas
	listed     atomic.Int64      // replicas of the region in Consul, by its last answer
}

// openCounters makes the store. With Redis the tier is not ready before Redis has answered.
func (t *Tier) openCounters() (c *counters, err error) {
	c = &counters{configured: t.cfg.Replicas}
	if len(t.cfg.Redis) > 0 {
		if c.redis, err = newRedis(t.cfg, t.Metrics, t.Tracer, t.Log); err != nil {
			return nil, err
		}
		c.Store = c.redis
		t.behind = append(t.behind, c.redis.Run, t.awaitRedis(c.redis))
		return c, nil
	}
	c.memory = memory.New(memory.Config{MaxKeys: t.cfg.MaxKeys, MaxBytes: t.budget.Table})
	c.Store = c.memory
	observeMemory(c.memory, t.Metrics)
	t.behind = append(t.behind, c.memory.Run)
	if path := t.cfg.stateFile(); path != "" {
		if c.snapshots, err = newSnapshotter(path, t.cfg.StateInterval, c.memory, t.Metrics, t.Log); err != nil {
			return nil, err
		}
	}
	if c.snapshots != nil {
		t.behind = append(t.behind, c.snapshots.Run)
	}
	return c, nil
}

// replicas are those of the region that are live, as far as is known.
func (c *counters) replicas() int {
	if c.redis != nil {
		if n := c.redis.Replicas(); n > 0 {
			return n
		}
	}
	return max(c.configured, int(c.listed.Load()))
}

// holders are those of all replicas, or those of the process before; 0: they are not known.
func (c *counters) holders() int {
	switch {
	case c.redis != nil:
		return c.redis.Holders()
	case c.snapshots != nil:
		return c.snapshots.formerHolders()
	}
	return 0
}

// drainTime bounds the return of leases when the service ends.
const drainTime = time.Second

// drain returns the unspent leases of the caches while the stores still run, so that the
// other replicas need not wait until these leases end.
func drain(caches []*leasecache.Store, log *slog.Logger) {
	if len(caches) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), drainTime)
	defer cancel()
	drained := make([]leasecache.Drained, len(caches))
	var all sync.WaitGroup
	for i, cache := range caches {
		all.Go(func() { drained[i] = cache.Drain(ctx) })
	}
	all.Wait()
	var d leasecache.Drained
	for _, one := range drained {
		d.Units, d.Lost, d.Owed = d.Units+one.Units, d.Lost+one.Lost, d.Owed+one.Owed
	}
	if d.Lost > 0 || d.Owed > 0 {
		log.Warn("could not return all leases; lost units are free when their leases end", "units", d.Units, "lost", d.Lost, "owed", d.Owed)
		return
	}
	log.Info("returned unspent leases", "units", d.Units)
}

// observeMemory declares the metrics of the memory store.
func observeMemory(s *memory.Store, r *telemetry.Registry) {
	r.GaugeFunc("weir_store_keys", "Counters in memory.", func() float64 { return float64(s.Stats().Keys) })
	r.GaugeFunc("weir_store_bytes", "Memory that they take.", func() float64 { return float64(s.Stats().Bytes) })
	r.CounterFunc("weir_store_evictions_total", "Counters forgotten, all of them as good as new.", func() float64 { return float64(s.Stats().Evicted) })
	r.CounterFunc("weir_store_full_total", "Wants answered unavailable because there was no room for their key.", func() float64 { return float64(s.Stats().Rejected) })
}

// observeCaches declares the metrics of the lease caches, of all together.
func observeCaches(caches []*leasecache.Store, r *telemetry.Registry) {
	if len(caches) == 0 {
		return
	}
	stats := func(of func(leasecache.Stats) float64) func() float64 {
		return func() (sum float64) {
			for _, cache := range caches {
				sum += of(cache.Stats())
			}
			return sum
		}
	}
	r.GaugeFunc("weir_lease_cache_keys", "Keys in the lease cache.", stats(func(s leasecache.Stats) float64 { return float64(s.Keys) }))
	r.CounterFunc("weir_lease_cache_leased_total", "Wants answered from a lease in the cache.", stats(func(s leasecache.Stats) float64 { return float64(s.Leased) }))
	r.CounterFunc("weir_lease_cache_denied_total", "Wants answered from a denial in the cache.", stats(func(s leasecache.Stats) float64 { return float64(s.Denied) }))
	r.CounterFunc("weir_lease_cache_failed_total", "Wants answered unavailable by the cache, because the store did not answer just before.", stats(func(s leasecache.Stats) float64 { return float64(s.Failed) }))
	r.CounterFunc("weir_lease_cache_asked_total", "Asks that the cache sent to the store.", stats(func(s leasecache.Stats) float64 { return float64(s.Asked) }))
	r.CounterFunc("weir_lease_cache_evicted_total", "Keys that gave up their place in the cache to others, with leases given back or a denial forgotten.", stats(func(s leasecache.Stats) float64 { return float64(s.Evicted) }))
	r.CounterFunc("weir_lease_cache_full_total", "Times that no key in the cache could give up its place, so that an ask went to the store as it was.", stats(func(s leasecache.Stats) float64 { return float64(s.Full) }))
}

// newCollector makes what people see the tier through. Reports are notes in the store that replicas share.
func (t *Tier) newCollector(p *Program) *live.Collector {
	const mostReports = 32 << 20
	c := live.Config{
		Regions: p.AggregatorCalls == nil, Self: t.newSelf(p), Known: t.knows, PerSecond: t.perSecond,
		MaxBytes: min(max(t.budget.Table/4, 1<<20), mostReports), Log: t.Log,
	}
	if p.AggregatorCalls == nil {
		c.Expected = t.rules.regionNames
	} else {
		c.Region, c.History = p.AggregatorCalls.Region, new(live.Memory)
		if s := t.counters.snapshots; s != nil {
			s.history = newKeptHistory(s.path+".history", t.Log)
			c.History = s.history
		}
	}
	if t.aggregator != nil {
		c.Aggregator = t.aggregator
	}
	if redis := t.counters.redis; redis != nil {
		c.Reports, c.Watches = redis.Reports(), redis.Watches()
		if c.History != nil {
			c.History = redis.History()
		}
	} else {
		c.Reports, c.Watches = new(live.Memory), new(live.Memory)
	}
	collector := live.New(c)
	t.behind = append(t.behind, collector.Run)
	return collector
}

func (t *Tier) knows(rule string) bool { return t.Service.Knows(rule) }
func (t *Tier) perSecond(rule, override string, key []byte) float64 {
	return t.Service.PerSecond(rule, override, key)
}

// newSelf returns how this replica does.
func (t *Tier) newSelf(p *Program) func() *quotav1.Member {
	const holderBytes = 16
	began := time.Now()
	m := &quotav1.Member{
		Kind: quotav1.MemberKind_MEMBER_KIND_AGGREGATOR, Holder: make([]byte, holderBytes), Version: version.Version,
	}
	_, _ = rand.Read(m.Holder) // never fails
	host, _ := os.Hostname()
	m.Name = clipped(host, wire.MaxPop)
	if p.AggregatorCalls != nil {
		m.Kind, m.Region = quotav1.MemberKind_MEMBER_KIND_REGION, p.AggregatorCalls.Region
	}
	return func() *quotav1.Member {
		now := proto.CloneOf(m)
		rules := t.inForce()
		problem := cmp.Or(rules.Problem, strings.Join(t.Ready.Reasons(), "; "))
		now.RulesVersion, now.RulesRevision, now.Error = clipped(rules.Version, wire.MaxVersion), rules.Revision, clipped(problem, wire.MaxProblem)
		now.AgeMs = uint64(time.Since(began).Milliseconds())
		if since := t.rules.inForce.Load().since; !since.IsZero() {
			now.RulesAgeMs = uint64(time.Since(since).Milliseconds())
		}
		if set, _ := t.Service.InForce(); t.aggregator != nil && set != nil && global(set) != "" {
			now.DegradedMs = uint64(t.aggregator.Unavailable().Milliseconds())
		}
		now.ReservePerMille = min(t.rules.sharePerMille(), 1000)
		for _, cache := range t.caches {
			now.Keys, now.Places = now.Keys+uint64(cache.Stats().Keys), now.Places+uint64(t.cfg.MaxKeys)
		}
		if t.counters.redis == nil {
			now.Keys, now.Places = now.Keys+uint64(t.counters.memory.Stats().Keys), now.Places+uint64(t.cfg.MaxKeys)
			return now
		}
		ended, cancel := context.WithCancel(context.Background())
		cancel() // it is asked what is known now
		now.Redis = "ok"
		if err := t.counters.redis.Ready(ended); err != nil {
			now.Redis = clipped(err.Error(), wire.MaxProblem)
		}
		return now
	}
}

// clipped is the begin of a text, of at most so many bytes.
func clipped(text string, most int) string {
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}
