package regions

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/weirlimit/weir/test/kit/consul"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

// World is the regions and the aggregator. It is used from one goroutine.
type World struct {
	Aggregator *region.Region
	Regions    []*Region

	t       proc.T
	rules   string         // the file that all were started with
	weights map[string]int // of regions, that are in force
}

// Region is one region.
type Region struct {
	Name     string
	Link     *stack.Link // from its replicas to the aggregator
	Redis    *redistest.Cluster
	Consul   *consul.Datacenter
	Replicas []*region.Region
	PoPs     []*envoy.Envoy

	dead []*redistest.Server
}

// each is how many replicas a region has, and how many PoPs.
const each = 2

// Start starts a world, with logs and configuration in dir, and returns when all PoPs have
// the rules. Where scripts are to be played these are of [Document]. It ends with t.
func Start(t proc.T, dir, rules string) *World {
	t.Helper()
	w := &World{t: t, rules: rules, weights: equalWeights()}
	for _, name := range Names {
		w.Regions = append(w.Regions, &Region{Name: name})
	}
	w.startConsul(dir)
	w.Aggregator = region.New(t, region.Config{
		Dir: dir, Name: "global", Rules: rules, Program: "weir-global",
		Flags: []string{"--state", filepath.Join(dir, "global.state"), "--consul", w.Regions[0].Consul.Servers[0].Addr},
	})
	w.Aggregator.Begin()
	for _, r := range w.Regions {
		r.Link = stack.NewLink(t, w.Aggregator.Addr)
		r.Redis = redistest.StartCluster(t, 3, 0, redistest.NodeTimeout(nodeTimeout))
		for i := range each {
			r.Replicas = append(r.Replicas, region.New(t, region.Config{
				Dir: dir, Name: fmt.Sprintf("%s-%d", r.Name, i+1), Rules: rules,
				Flags: []string{"--region", r.Name, "--global", r.Link.Addr, "--consul", r.Consul.Servers[0].Addr,
					"--redis", strings.Join(r.Redis.Addrs(), ","), "--replicas", fmt.Sprint(each)},
			}))
			r.Replicas[i].Begin()
		}
	}
	w.startPoPs(dir)
	w.awaitRules()
	return w
}

// nodeTimeout is more than a node of Redis may be held up by a machine that starts a world.
const nodeTimeout = 5 * time.Second

// startConsul starts a datacenter for each region. The first is the primary, of three
// servers; the others have joined it over WAN.
func (w *World) startConsul(dir string) {
	w.t.Helper()
	for i, r := range w.Regions {
		cfg := consul.Config{Dir: dir, Name: r.Name, Servers: 3}
		if i > 0 {
			cfg.Primary, cfg.Servers = w.Regions[0].Consul, 1
		}
		r.Consul = consul.StartDatacenter(w.t, cfg)
	}
}

// startPoPs starts all of them at once: each compiles the filter.
func (w *World) startPoPs(dir string) {
	w.t.Helper()
	for _, r := range w.Regions {
		var replicas []string
		for _, replica := range r.Replicas {
			replicas = append(replicas, replica.Addr)
		}
		for i := range each {
			name := fmt.Sprintf("%s-pop-%d", r.Name, i+1)
			p := envoy.New(w.t, envoy.Config{Dir: dir, Name: name, Listener: "pop", Workers: 2})
			b, demo := p.Bootstrap, proc.FreeAddr(w.t)
			b.SetNode(name)
			b.SetListener("demo_upstream", demo)
			b.SetCluster("upstream", demo)
			b.SetCluster("weir_region", replicas...)
			b.SetAccessLog(os.DevNull)
			b.SetPlugin(map[string]any{"pop": name})
			r.PoPs = append(r.PoPs, p)
			p.Begin()
		}
	}
	for _, r := range w.Regions {
		for _, replica := range r.Replicas {
			replica.AwaitReady()
		}
		for _, p := range r.PoPs {
			p.AwaitReady()
		}
	}
}

// awaitRules waits until each PoP has fetched the rules. One worker fetches them; the
// others take them over at their next tick, every 100 ms, which nothing shows.
func (w *World) awaitRules() {
	w.t.Helper()
	for _, r := range w.Regions {
		for _, p := range r.PoPs {
			const answered = "wasmcustom.weir.calls.reason.answered"
			proc.Eventually(w.t, time.Minute, p.Name+" has fetched the rules", func() bool { return p.Stats(answered)[answered] > 0 })
		}
	}
	time.Sleep(settle)
}

// weigh gives the static shares of regions other weights, and waits until all go by them.
func (w *World) weigh(weights map[string]int) {
	w.t.Helper()
	if maps.Equal(weights, w.weights) {
		return
	}
	rules, err := weighted(w.rules, weights)
	if err != nil {
		w.t.Fatalf("%v", err)
	}
	programs := []*region.Region{w.Aggregator}
	for _, r := range w.Regions {
		programs = append(programs, r.Replicas...)
	}
	const revision = "weir_rules_revision"
	for _, p := range programs {
		before := p.Metrics()[revision]
		p.SetRules(rules)
		proc.Eventually(w.t, time.Minute, p.Name+" has the rules with other weights", func() bool { return p.Metrics()[revision] != before })
	}
	w.weights = weights
	time.Sleep(settle) // the PoPs take over the new rules
}

// Region is the one of that name.
func (w *World) Region(name string) *Region {
	return w.Regions[slices.IndexFunc(w.Regions, func(r *Region) bool { return r.Name == name })]
}

// Addrs are the addresses of the region's PoPs.
func (r *Region) Addrs() (all []string) {
	for _, p := range r.PoPs {
		all = append(all, p.Addr)
	}
	return all
}

// Cut lets nothing pass between the region and the aggregator, in either direction, with
// connections left open.
func (r *Region) Cut() {
	r.Link.SwallowCalls()
	r.Link.Swallow()
}

// killRedis kills the master that has a counter of a rule.
func (w *World) killRedis(r *Region, rule string) {
	w.t.Helper()
	for _, m := range r.Redis.Masters() {
		if keys, _ := m.Do("KEYS", "*"+rule+"*").([]any); len(keys) > 0 {
			r.dead = append(r.dead, m)
			m.Kill()
			return
		}
	}
	w.t.Fatalf("no master of %s has a counter of %s", r.Name, rule)
}

// startRedis starts what was killed.
func (r *Region) startRedis() {
	for _, m := range r.dead {
		m.Restart()
	}
	r.dead = nil
}

// startConsul starts servers that are down.
func (r *Region) startConsul() {
	for _, server := range r.Consul.Servers {
		if server.Exited() {
			server.Begin()
		}
	}
}

// mend ends every fault, whether the script has ended it or not.
func (w *World) mend() {
	w.t.Helper()
	if w.Aggregator.Exited() {
		w.Aggregator.Begin()
	}
	for _, r := range w.Regions {
		r.Link.Heal()
		r.startRedis()
		r.startConsul()
	}
	w.Aggregator.AwaitReady()
}

// quiet waits until every replica reaches the aggregator and all of Redis.
func (w *World) quiet() {
	w.t.Helper()
	for _, r := range w.Regions {
		for _, replica := range r.Replicas {
			proc.Await(w.t, time.Minute, replica.Name+" is well", func() string {
				m := replica.Metrics()
				if status, text := replica.Ready(); status != http.StatusOK {
					return text
				}
				if m[`weir_consul_ok{task="register"}`] != 1 {
					return "it is not registered in Consul"
				}
				if m["weir_remote_up"] != 1 || m["weir_redis_breakers_open"] != 0 {
					return fmt.Sprintf("aggregator up: %v, nodes of Redis away: %v", m["weir_remote_up"], m["weir_redis_breakers_open"])
				}
				return ""
			})
		}
	}
}
