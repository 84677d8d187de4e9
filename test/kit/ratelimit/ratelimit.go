// Package ratelimit runs envoyproxy/ratelimit, whose version is in test/load/peers/go.mod.
package ratelimit

import (
	"net"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// building is held while it is built.
var building sync.Mutex

// Build builds it and test/load/peers/empty, and returns their directory. go build knows what is out of date.
func Build(t proc.T) (dir string) {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	root := proc.Root(t)
	dir = filepath.Join(root, ".tools/peers")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", dir+"/", "github.com/envoyproxy/ratelimit/src/service_cmd", "./empty")
	cmd.Dir = filepath.Join(root, "test/load/peers")
	proc.Run(t, cmd)
	return dir
}

// Start starts it, with a log in dir, and waits until it is ready: it answers gRPC at addr by the configurations of a directory.
// Its other settings are in the environment; what is not set is its default.
func Start(t proc.T, dir, name, addr, configurations string, env ...string) *proc.Process {
	t.Helper()
	web := proc.FreeAddr(t)
	argv := append([]string{"env", "REDIS_SOCKET_TYPE=tcp", "RUNTIME_ROOT=" + filepath.Dir(configurations), "RUNTIME_SUBDIRECTORY=",
		"RUNTIME_APPDIRECTORY=" + filepath.Base(configurations), "RUNTIME_WATCH_ROOT=false", "USE_STATSD=false", "LOG_LEVEL=warn"}, env...)
	for prefix, at := range map[string]string{"GRPC_": addr, "": web, "DEBUG_": proc.FreeAddr(t)} {
		host, port, err := net.SplitHostPort(at)
		fatal.If(t, err)
		argv = append(argv, prefix+"HOST="+host, prefix+"PORT="+port)
	}
	p := proc.Start(t, dir, name, append(argv, filepath.Join(Build(t), "service_cmd"))...)
	p.AwaitReady("http://" + web + "/healthcheck")
	return p
}
