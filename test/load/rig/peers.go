//go:build linux

package rig

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Peers are the programs that Weir is compared with, built from a module of their
// own.
type Peers struct {
	rig *Rig
	dir string // of what was built
}

// ratelimitModule is the program of envoyproxy/ratelimit; its version is in
// peers/go.mod.
const ratelimitModule = "github.com/envoyproxy/ratelimit/src/service_cmd"

// Peers builds them.
func (r *Rig) Peers() (*Peers, error) {
	root := proc.Root(r)
	p := &Peers{rig: r, dir: filepath.Join(root, ".tools/peers")}
	cmd := exec.CommandContext(r.Ctx, "go", "build", "-o", p.dir+"/", ratelimitModule, "./empty", "./redisrate")
	cmd.Dir = filepath.Join(root, "test/load/peers")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("peers: go build: %w\n%s", err, out)
	}
	return p, nil
}

// Service is another service with Envoy's rate limit service.
type Service struct {
	RLS string
	*proc.Process
}

// RateLimit starts envoyproxy/ratelimit on a Redis Cluster, with limits as its
// configuration and a local cache of denials of so many bytes; 0: none. What is
// not set is its default.
func (p *Peers) RateLimit(name string, redis []string, limits string, cache int) (s *Service, err error) {
	defer proc.Recover(&err)
	dir := p.rig.limits(name, limits)
	s = &Service{RLS: proc.FreeAddr(p.rig)}
	web, debug := proc.FreeAddr(p.rig), proc.FreeAddr(p.rig)
	argv := []string{"env",
		"REDIS_TYPE=CLUSTER", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + strings.Join(redis, ","),
		"REDIS_PIPELINE_WINDOW=150us",
		"LOCAL_CACHE_SIZE_IN_BYTES=" + strconv.Itoa(cache),
		"RUNTIME_ROOT=" + filepath.Dir(filepath.Dir(dir)), "RUNTIME_SUBDIRECTORY=" + filepath.Base(filepath.Dir(dir)),
		"RUNTIME_WATCH_ROOT=false", "USE_STATSD=false", "LOG_LEVEL=warn",
	}
	for _, listen := range []struct{ name, addr string }{{"GRPC_", s.RLS}, {"", web}, {"DEBUG_", debug}} {
		host, port, err := net.SplitHostPort(listen.addr)
		if err != nil {
			return nil, err
		}
		argv = append(argv, listen.name+"HOST="+host, listen.name+"PORT="+port)
	}
	s.Process, err = p.rig.start(name, "http://"+web+"/healthcheck", append(argv, filepath.Join(p.dir, "service_cmd"))...)
	return s, err
}

// Empty starts a service that answers OK to everything and looks at nothing.
func (p *Peers) Empty() (s *Service, err error) {
	defer proc.Recover(&err)
	s = &Service{RLS: proc.FreeAddr(p.rig)}
	s.Process, err = p.rig.start("empty", "tcp://"+s.RLS, filepath.Join(p.dir, "empty"), s.RLS)
	return s, err
}

// RedisRate runs the script of go-redis/redis_rate in pipelines.
type RedisRate struct {
	*proc.Process
	url string
}

// RedisRate starts it on a Redis Cluster.
func (p *Peers) RedisRate(redis []string) (rr *RedisRate, err error) {
	defer proc.Recover(&err)
	addr := proc.FreeAddr(p.rig)
	rr = &RedisRate{url: "http://" + addr}
	rr.Process, err = p.rig.start("redis_rate", rr.url+"/", filepath.Join(p.dir, "redisrate"), addr, strings.Join(redis, ","))
	return rr, err
}

// Run acquires one unit of keys drawn at random from so many, each with a limit
// per hour, and returns how many it acquired.
func (rr *RedisRate) Run(ctx context.Context, keys, limit int, d time.Duration) (int, error) {
	return rr.ask(ctx, fmt.Sprintf("/run?keys=%d&limit=%d&milliseconds=%d", keys, limit, d.Milliseconds()))
}

// Fill acquires one unit of each of so many keys.
func (rr *RedisRate) Fill(ctx context.Context, keys, limit int) (int, error) {
	return rr.ask(ctx, fmt.Sprintf("/fill?keys=%d&limit=%d", keys, limit))
}

func (rr *RedisRate) ask(ctx context.Context, path string) (int, error) {
	body, err := page.Read(ctx, http.DefaultClient, rr.url+path)
	if err != nil {
		return 0, fmt.Errorf("redis_rate: %w", err)
	}
	return strconv.Atoi(strings.TrimSpace(string(body)))
}
