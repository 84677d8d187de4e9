package regions

import (
	"cmp"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

// Config is what a world has. Only Dir and Rules are needed.
type Config struct {
	Dir       string                 // for logs and configuration
	Rules     string                 // that Start puts into Consul; a script brings its own
	PoPs      int                    // of each region; 0: two
	Spares    int                    // replicas of each Redis master of the aggregators
	Bootstrap func(*envoy.Bootstrap) // edits that of each PoP last
}

// World is the regions and the aggregator. It is used from one goroutine.
type World struct {
	Aggregators []*region.Region
	Redis       *masters // of the aggregators
	Regions     []*Region

	t   proc.T
	cfg Config

	rules    Document // those that were applied last
	number   int      // of these, from 1; see [marker]
	unmarked bool     // they have none
	revision float64  // that Consul has given them

	plays int    // so far
	play  string // the value of [playHeader] in the last
}

// Region is one region.
type Region struct {
	Name     string
	Links    links // from its replicas to each aggregator
	Redis    *masters
	Consul   *consultest.Datacenter
	toConsul *stack.Link // from its replicas; nil in the region that has the rules
	Replicas []*region.Region
	PoPs     []*envoy.Envoy
}

// each is how many aggregators there are, and how many replicas in a region.
const each = 2

// Start starts a world, and returns when all PoPs have the rules. It ends with t.
func Start(t proc.T, cfg Config) *World {
	t.Helper()
	w := &World{t: t, cfg: cfg}
	for _, name := range Names {
		w.Regions = append(w.Regions, &Region{Name: name})
	}
	w.startConsul()
	fatal.If(t, yaml.Unmarshal([]byte(cfg.Rules), &w.rules))
	w.apply(w.rules)
	w.beginAggregators()
	for _, r := range w.Regions {
		var aggregators []string
		for _, a := range w.Aggregators {
			link := stack.NewLink(t, a.Addr)
			r.Links, aggregators = append(r.Links, link), append(aggregators, link.Addr)
		}
		agent := r.Consul.Servers[0].Addr
		if r != w.Regions[0] { // the rules are in the first region
			r.toConsul = stack.NewLink(t, agent)
			agent = r.toConsul.Addr
		}
		port := strconv.Itoa(proc.FreePort(t))
		r.Redis = startMasters(t, 0)
		for i := range each {
			name := fmt.Sprintf("%s-%d", r.Name, i+1)
			r.Replicas = append(r.Replicas, region.New(t, region.Config{
				Dir: cfg.Dir, Name: name, Addr: net.JoinHostPort(fmt.Sprintf("127.0.0.%d", i+1), port),
				Flags: append(w.inConsul(name, agent), "--region", r.Name, "--aggregator", strings.Join(aggregators, ","),
					"--redis", strings.Join(r.Redis.Addrs(), ","), "--replicas", fmt.Sprint(each)),
			}))
			r.Replicas[i].Begin()
		}
	}
	w.startPoPs()
	w.awaitRules()
	return w
}

// startConsul starts a datacenter for each region. The first is the primary, of three
// servers; the others have joined it over WAN.
func (w *World) startConsul() {
	w.t.Helper()
	for i, r := range w.Regions {
		cfg := consultest.Config{Dir: w.cfg.Dir, Name: r.Name, Servers: 3}
		if i > 0 {
			cfg.Primary, cfg.Servers = w.Regions[0].Consul, 1
		}
		r.Consul = consultest.StartDatacenter(w.t, cfg)
	}
}

// inConsul are the flags of a program: its agent, and the rules of the primary
// datacenter, with a copy of its own.
func (w *World) inConsul(name, agent string) []string {
	return []string{"--consul", agent, "--consul-primary", w.Regions[0].Name,
		"--rules", "consul:", "--rules-copy", filepath.Join(w.cfg.Dir, name+".copy")}
}

// startPoPs starts all of them at once: each compiles the filter.
func (w *World) startPoPs() {
	w.t.Helper()
	for _, r := range w.Regions {
		found := map[string]string{} // so that the first question has an answer
		for _, replica := range r.Replicas {
			found["weir-regional-"+r.Name+"-"+replica.Addr] = "passing"
		}
		r.Consul.Servers[0].AwaitStatus("weir-regional-"+r.Name, found)
		_, port, err := net.SplitHostPort(r.Replicas[0].Addr)
		fatal.If(w.t, err)
		for i := range cmp.Or(w.cfg.PoPs, 2) {
			name := fmt.Sprintf("%s-pop-%d", r.Name, i+1)
			p := envoy.New(w.t, envoy.Config{Dir: w.cfg.Dir, Name: name, Listener: "pop", Workers: 2})
			b, demo := p.Bootstrap, proc.FreeAddr(w.t)
			b.SetNode(name)
			b.SetListener("demo_upstream", demo)
			b.SetCluster("upstream", demo)
			b.FindRegion(r.Name, port, r.Consul.Servers[0].DNS)
			b.SetAccessLog(os.DevNull)
			b.SetPlugin(map[string]any{"pop": name, "region": r.Name})
			if w.cfg.Bootstrap != nil {
				w.cfg.Bootstrap(b)
			}
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
	w.startAggregators()
	for _, r := range w.Regions {
		r.Links.each((*stack.Link).Heal)
		r.Redis.start()
		r.startConsul()
	}
	for _, a := range w.Aggregators {
		a.AwaitReady()
	}
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
				if m["weir_aggregator_up"] != 1 || m["weir_redis_breakers_open"] != 0 {
					return fmt.Sprintf("aggregator up: %v, nodes of Redis away: %v", m["weir_aggregator_up"], m["weir_redis_breakers_open"])
				}
				return ""
			})
		}
		for _, p := range r.PoPs {
			proc.Await(w.t, time.Minute, p.Name+" has found its region", func() string {
				if n := p.Stat("cluster.weir_region.membership_healthy"); n != each {
					return fmt.Sprintf("%d replicas of %d", n, each)
				}
				return ""
			})
		}
	}
}

// beginAggregators starts two aggregators that share a Redis Cluster.
func (w *World) beginAggregators() {
	w.t.Helper()
	w.Redis = startMasters(w.t, w.cfg.Spares)
	for i := range each {
		name := fmt.Sprintf("global-%d", i+1)
		w.Aggregators = append(w.Aggregators, region.New(w.t, region.Config{
			Dir: w.cfg.Dir, Name: name, Program: "weir-global",
			Flags: append(w.inConsul(name, w.Regions[0].Consul.Servers[0].Addr),
				"--redis", strings.Join(w.Redis.Addrs(), ","), "--replicas", fmt.Sprint(each)),
		}))
	}
	for _, a := range w.Aggregators {
		a.Begin()
	}
}

func (w *World) killAggregators() {
	for _, a := range w.Aggregators {
		a.Kill()
	}
}

// startAggregators starts those that are down.
func (w *World) startAggregators() {
	for _, a := range w.Aggregators {
		if a.Exited() {
			a.Begin()
		}
	}
}

// busiest is the aggregator that has answered most.
func (w *World) busiest() *region.Region {
	return slices.MaxFunc(w.Aggregators, func(a, b *region.Region) int { return cmp.Compare(w.asked(a), w.asked(b)) })
}

func (w *World) asked(a *region.Region) float64 { return w.counted(a).Sum("weir_region_wants_total") }

// counted is what an aggregator has counted: nothing if it is down.
func (w *World) counted(a *region.Region) measure.Metrics {
	if !a.Answers() {
		return nil
	}
	m, err := measure.Scrape(w.t.Context(), a.HTTP, "http://"+a.Admin+"/metrics")
	if err != nil {
		return nil
	}
	return m
}
