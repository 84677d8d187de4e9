//go:build linux

package region

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/ratelimit"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/load/rig"
)

// limits is the configuration that both services get, in their common format.
const limits = `domain: bench
descriptors:
  - key: uniform
    rate_limit: { unit: minute, requests_per_unit: 1000 }
  - key: hot
    rate_limit: { unit: minute, requests_per_unit: 1000000 }
  - key: tight
    rate_limit: { unit: minute, requests_per_unit: 10 }
`

const (
	cacheSize = 16 << 20 // of envoyproxy/ratelimit's local cache, in bytes

	admitted = 200
	rejected = 429
)

// load is one kind of traffic. Its name is the entry of its descriptors.
type load struct {
	name  string
	title string
	keys  func() drive.Keys
	want  int // the answer that nearly all requests should get
}

// tightKeys is so few that their limit is used up at once.
const tightKeys = 100

func (b *bench) loads() []load {
	return []load{
		{"uniform", fmt.Sprintf("%d uniform keys, 1000 a minute each", b.keys),
			func() drive.Keys { return drive.Uniform(b.keys, 1) }, admitted},
		{"hot", "one key, 1,000,000 a minute", drive.Hot, admitted},
		{"tight", fmt.Sprintf("%d keys, 10 a minute each: nearly all denied", tightKeys),
			func() drive.Keys { return drive.Uniform(tightKeys, 1) }, rejected},
	}
}

// service is one that answers calls of Envoy's rate limit service.
type service struct {
	name  string
	addr  string
	calls []string // the commands that it sends to Redis, but for those that scripts run
	*proc.Process
}

type services struct {
	empty          *service
	theirs, cached *service // envoyproxy/ratelimit, without and with its local cache
	weir           *service
}

// ratelimit starts envoyproxy/ratelimit, with a local cache of so many bytes.
func (b *bench) ratelimit(name, process string, cache int) *service {
	s := &service{name: name, addr: proc.FreeAddr(b), calls: []string{"incrby", "expire"}}
	s.Process = ratelimit.Start(b, b.Dir, process, s.addr, b.configure(process), "REDIS_TYPE=CLUSTER", "REDIS_URL="+strings.Join(b.redis.Addrs(), ","),
		"REDIS_PIPELINE_WINDOW=150us", "LOCAL_CACHE_SIZE_IN_BYTES="+strconv.Itoa(cache))
	return s
}

// weir starts a replica of a region on Redis without rules, which serves the limits.
func (b *bench) weir(process string) *service {
	s := &service{name: "Weir", addr: proc.FreeAddr(b), calls: []string{"evalsha", "eval"}}
	r := region.New(b, region.Config{Dir: b.Dir, Name: process, Rules: "rules: []\n", Flags: []string{
		"--redis", strings.Join(b.redis.Addrs(), ","), "--ratelimit-config", b.configure(process), "--rls-listen", s.addr}})
	r.Start()
	s.Process = r.Process
	return s
}

func (b *bench) start() *services {
	s := &services{empty: &service{name: "empty handler", addr: proc.FreeAddr(b)}}
	starts := []func(){
		func() {
			s.empty.Process = proc.Start(b, b.Dir, "empty", ratelimit.Build(b)+"/empty", s.empty.addr)
			s.empty.AwaitReady("tcp://" + s.empty.addr)
		},
		func() { s.theirs = b.ratelimit("envoyproxy/ratelimit", "theirs", 0) },
		func() { s.cached = b.ratelimit("envoyproxy/ratelimit with local cache", "theirs-cached", cacheSize) },
		func() { s.weir = b.weir("weir") },
	}
	b.Together(len(starts), func(i int) { starts[i]() })
	return s
}

// mode is a service under a load. What is measured are the service (Parts[0]) and Redis (Parts[1]).
func (b *bench) mode(s *service, l load, redis rig.Meter) *rig.Mode {
	client, err := drive.DialRLS(s.addr, "bench", l.name, l.keys(), conns)
	b.Must(err)
	b.Cleanup(client.Close)
	return &rig.Mode{
		Name: nameOf(s, l), Client: client, Status: l.want, Settle: b.settle,
		Meters: []rig.Meter{rig.MeterOf(s.Process), redis}, Count: func() int64 { return b.redis.Calls(s.calls...) },
	}
}

func nameOf(s *service, l load) string { return s.name + ", " + l.name }

// configure writes a directory with the limits, in the format of Envoy's rate limit service.
func (b *bench) configure(name string) (dir string) {
	return filepath.Dir(proc.WriteFile(b, filepath.Join(b.Dir, name+".limits", "config", "bench.yaml"), limits))
}
