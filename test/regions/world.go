package regions

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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

	t     proc.T
	dir   string // of logs and configuration
	rules string // those in force
	begun string // those that all were started with
}

// Region is one region.
type Region struct {
	Name     string
	Link     *stack.Link // from its replicas to the aggregator
	Agent    string      // of Consul, for its replicas: the aggregator's address is that of the link
	Redis    *redistest.Cluster
	Consul   *consul.Datacenter
	Replicas []*region.Region
	PoPs     []*envoy.Envoy

	dead []*redistest.Server
}

// each is how many replicas a region has, and how many PoPs.
const each = 2

// Start starts a world, with logs and configuration in dir, and returns when all PoPs have
// the rules, which it puts into Consul. Where scripts are to be played these are of [Document].
// It ends with t.
func Start(t proc.T, dir, rules string) *World {
	t.Helper()
	w := &World{t: t, dir: dir, begun: rules}
	for _, name := range Names {
		w.Regions = append(w.Regions, &Region{Name: name})
	}
	w.startConsul()
	revision := w.apply(rules, "begin")
	w.Aggregator = region.New(t, region.Config{
		Dir: dir, Name: "global", Program: "weir-global",
		Flags: append(w.inConsul("global", w.Regions[0].Consul.Servers[0].Addr), "--state", filepath.Join(dir, "global.state")),
	})
	w.Aggregator.Begin()
	for _, r := range w.Regions {
		r.Link = stack.NewLink(t, w.Aggregator.Addr)
		r.Agent = r.Consul.Servers[0].Translate(map[string]string{w.Aggregator.Addr: r.Link.Addr})
		port := strconv.Itoa(proc.FreePort(t))
		r.Redis = redistest.StartCluster(t, 3, 0, redistest.NodeTimeout(nodeTimeout))
		for i := range each {
			name := fmt.Sprintf("%s-%d", r.Name, i+1)
			r.Replicas = append(r.Replicas, region.New(t, region.Config{
				Dir: dir, Name: name, Addr: net.JoinHostPort(fmt.Sprintf("127.0.0.%d", i+1), port),
				Flags: append(w.inConsul(name, r.Agent), "--region", r.Name,
					"--redis", strings.Join(r.Redis.Addrs(), ","), "--replicas", fmt.Sprint(each)),
			}))
			r.Replicas[i].Begin()
		}
	}
	w.startPoPs()
	w.awaitRules(revision)
	return w
}

// nodeTimeout is more than a node of Redis may be held up by a machine that starts a world.
const nodeTimeout = 5 * time.Second

// startConsul starts a datacenter for each region. The first is the primary, of three
// servers; the others have joined it over WAN.
func (w *World) startConsul() {
	w.t.Helper()
	for i, r := range w.Regions {
		cfg := consul.Config{Dir: w.dir, Name: r.Name, Servers: 3}
		if i > 0 {
			cfg.Primary, cfg.Servers = w.Regions[0].Consul, 1
		}
		r.Consul = consul.StartDatacenter(w.t, cfg)
	}
}

// inConsul are the flags of a program: its agent, and the rules of the primary
// datacenter, with a copy of its own.
func (w *World) inConsul(name, agent string) []string {
	return []string{"--consul", agent, "--consul-primary", w.Regions[0].Name,
		"--rules", "consul:", "--rules-copy", filepath.Join(w.dir, name+".copy")}
}

// startPoPs starts all of them at once: each compiles the filter.
func (w *World) startPoPs() {
	w.t.Helper()
	for _, r := range w.Regions {
		found := map[string]string{} // so that the first question has an answer
		for _, replica := range r.Replicas {
			found["weir-regional-"+replica.Addr] = "passing"
		}
		r.Consul.Servers[0].AwaitStatus("weir-regional", found)
		_, port, err := net.SplitHostPort(r.Replicas[0].Addr)
		if err != nil {
			w.t.Fatalf("%v", err)
		}
		for i := range each {
			name := fmt.Sprintf("%s-pop-%d", r.Name, i+1)
			p := envoy.New(w.t, envoy.Config{Dir: w.dir, Name: name, Listener: "pop", Workers: 2})
			b, demo := p.Bootstrap, proc.FreeAddr(w.t)
			b.SetNode(name)
			b.SetListener("demo_upstream", demo)
			b.SetCluster("upstream", demo)
			b.FindRegion(r.Name, port, r.Consul.Servers[0].DNS)
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

// quiet waits until every replica reaches the aggregator and all of Redis, and every PoP all replicas.
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
		for _, p := range r.PoPs {
			const stat = "cluster.weir_region.membership_healthy"
			proc.Await(w.t, time.Minute, p.Name+" has found its region", func() string {
				if n := p.Stats(stat)[stat]; n != each {
					return fmt.Sprintf("%d replicas of %d", n, each)
				}
				return ""
			})
		}
	}
}
