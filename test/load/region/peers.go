//go:build linux

package region

import (
	"net"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/test/kit/proc"
)

// ratelimitModule is the program of envoyproxy/ratelimit; its version is in
// peers/go.mod.
const ratelimitModule = "github.com/envoyproxy/ratelimit/src/service_cmd"

// build builds the programs that Weir is compared with, from a module of their own.
func (b *bench) build() {
	root := proc.Root(b)
	b.built = filepath.Join(root, ".tools/peers")
	cmd := exec.CommandContext(b.Ctx, "go", "build", "-o", b.built+"/", ratelimitModule, "./empty")
	cmd.Dir = filepath.Join(root, "test/load/peers")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("peers: go build: %v\n%s", err, out)
	}
}

// run starts a program, and waits until a URL shows that it is ready.
func (b *bench) run(name, ready string, argv ...string) *proc.Process {
	p := proc.Start(b, b.Dir, name, argv...)
	p.AwaitReady(ready)
	return p
}

// startRateLimit starts envoyproxy/ratelimit on the cluster, which answers at addr, with a local
// cache of denials of so many bytes; 0: none. What is not set is its default.
func (b *bench) startRateLimit(name, addr string, cache int) *proc.Process {
	dir := b.configure(name)
	web := proc.FreeAddr(b)
	argv := []string{"env",
		"REDIS_TYPE=CLUSTER", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL=" + strings.Join(b.redis.Addrs(), ","),
		"REDIS_PIPELINE_WINDOW=150us",
		"LOCAL_CACHE_SIZE_IN_BYTES=" + strconv.Itoa(cache),
		"RUNTIME_ROOT=" + filepath.Dir(filepath.Dir(dir)), "RUNTIME_SUBDIRECTORY=" + filepath.Base(filepath.Dir(dir)),
		"RUNTIME_WATCH_ROOT=false", "USE_STATSD=false", "LOG_LEVEL=warn",
	}
	for prefix, at := range map[string]string{"GRPC_": addr, "": web, "DEBUG_": proc.FreeAddr(b)} {
		host, port, err := net.SplitHostPort(at)
		b.Must(err)
		argv = append(argv, prefix+"HOST="+host, prefix+"PORT="+port)
	}
	return b.run(name, "http://"+web+"/healthcheck", append(argv, filepath.Join(b.built, "service_cmd"))...)
}

// configure writes a directory with the limits, in the format of Envoy's rate limit service.
func (b *bench) configure(name string) (dir string) {
	return filepath.Dir(proc.WriteFile(b, filepath.Join(b.Dir, name+".limits", "config", "bench.yaml"), limits))
}
