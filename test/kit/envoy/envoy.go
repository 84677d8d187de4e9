// Package envoy runs Envoys with the bootstrap that is shipped, envoy/pop.yaml, with
// other addresses, paths, filters and plugin JSON; see [Bootstrap].
package envoy

import (
	"bufio"
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Config is how to run an Envoy.
type Config struct {
	Dir      string // for its log and bootstrap
	Name     string // of both
	Listener string // the listener of the bootstrap that takes its requests
	Workers  int    // worker threads
	// HotRestart lets [Envoy.HotRestart] replace it.
	HotRestart bool
}

// Envoy is one Envoy.
type Envoy struct {
	Addr  string // where it takes requests
	Admin string
	// Bootstrap is written when the Envoy is started.
	Bootstrap *Bootstrap
	*proc.Process

	t      proc.T
	path   string   // of its bootstrap
	argv   []string // without what is about hot restarts
	baseID string   // file with what names the old and the new Envoy of a hot restart
}

// New prepares an Envoy on free ports. Start starts it.
func New(t proc.T, cfg Config) *Envoy {
	t.Helper()
	e := &Envoy{Addr: proc.FreeAddr(t), Admin: proc.FreeAddr(t), Bootstrap: ReadBootstrap(t), t: t,
		path: filepath.Join(cfg.Dir, cfg.Name+".json")}
	e.Bootstrap.SetAdmin(e.Admin)
	e.Bootstrap.SetListener(cfg.Listener, e.Addr)
	e.Bootstrap.SetModule(builtModule(t))
	e.argv = []string{Program(t), "-c", e.path,
		"--concurrency", strconv.Itoa(cfg.Workers),
		"--log-level", "warning",
		"--drain-time-s", "1", "--parent-shutdown-time-s", "2",
		"--file-flush-interval-msec", "200", // the access log: soon enough to be read
	}
	restarts := []string{"--disable-hot-restart"} // several Envoys on one host
	if cfg.HotRestart {
		e.baseID = filepath.Join(cfg.Dir, cfg.Name+".base-id")
		restarts = []string{"--use-dynamic-base-id", "--base-id-path", e.baseID}
	}
	e.Process = proc.New(t, cfg.Dir, cfg.Name, append(e.argv[:len(e.argv):len(e.argv)], restarts...)...)
	return e
}

// Program returns the path of Envoy: what `make setup` installs, or WEIR_ENVOY.
func Program(t proc.T) string {
	t.Helper()
	if path := os.Getenv("WEIR_ENVOY"); path != "" {
		return path
	}
	return proc.Built(t, ".tools/venv/bin/envoy", "setup")
}

// builtModule is the path of the filter's code that make builds.
func builtModule(t proc.T) string {
	t.Helper()
	return filepath.Join(proc.Root(t), "bin", "weir.wasm")
}

// Begin starts the Envoy, or starts it again, with its bootstrap as it is now. The
// module takes seconds to compile.
func (e *Envoy) Begin() {
	e.t.Helper()
	text := e.Bootstrap.JSON()
	if strings.Contains(text, builtModule(e.t)) { // else the test brought another, or there is none
		proc.Built(e.t, "bin/weir.wasm", "build")
	} else if e.Bootstrap.native {
		proc.Built(e.t, "bin/weir.so", "build")
	}
	proc.WriteFile(e.t, e.path, text)
	e.Process.Begin()
}

// Start starts the Envoy, or starts it again, and waits until it is ready.
func (e *Envoy) Start() {
	e.t.Helper()
	e.Begin()
	e.AwaitReady()
}

// AwaitReady waits until the Envoy is ready.
func (e *Envoy) AwaitReady() {
	e.t.Helper()
	e.Process.AwaitReady("http://" + e.Admin + "/ready")
}

// HotRestart starts another Envoy that takes the listeners over from the running one,
// which drains for a second and ends one later. It returns the old one's process when
// the new one is ready. Only once per Envoy, and only with Config.HotRestart.
func (e *Envoy) HotRestart() (old *proc.Process) {
	e.t.Helper()
	id := fatal.Get(os.ReadFile(e.baseID))(e.t)
	old = e.Process
	argv := append(e.argv[:len(e.argv):len(e.argv)], "--base-id", strings.TrimSpace(string(id)), "--restart-epoch", "1")
	e.Process = proc.Start(e.t, filepath.Dir(e.path), e.Name+"-new", argv...)
	e.AwaitUp(func() string {
		info, err := page.Read(context.Background(), &client, "http://"+e.Admin+"/server_info")
		if err != nil {
			return err.Error() // the old one has let the port go, the new one does not have it yet
		}
		if !bytes.Contains(info, []byte(`"restart_epoch": 1`)) || !bytes.Contains(info, []byte(`"state": "LIVE"`)) {
			return "the old Envoy has not handed over"
		}
		return ""
	})
	return old
}

// client asks admin endpoints, on a new connection each time: Envoys end.
var client = http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}

// Stat returns the counter or gauge of this Envoy with that name; 0 if there is none.
func (e *Envoy) Stat(name string) int64 {
	e.t.Helper()
	return e.Stats("^" + name + "$")[name]
}

// Stats returns the counters and gauges of this Envoy whose name contains part.
func (e *Envoy) Stats(part string) map[string]int64 {
	e.t.Helper()
	text := fatal.Get(page.Read(context.Background(), &client, "http://"+e.Admin+"/stats?filter="+part))(e.t)
	stats := map[string]int64{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			stats[name] = n
		}
	}
	return stats
}

// Calls returns how many calls this PoP has made to its region, of every kind.
func (e *Envoy) Calls() int64 {
	e.t.Helper()
	return e.Stat("cluster.weir_region.upstream_rq_total")
}

// SetRuntime changes a setting of the runtime, see [Bootstrap.AllowRuntime]; "" takes the change back.
func (e *Envoy) SetRuntime(name, value string) {
	e.t.Helper()
	resp := fatal.Get(client.Post("http://"+e.Admin+"/runtime_modify?"+name+"="+value, "", nil))(e.t)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		e.t.Fatalf("%s: %s=%s: status %d", e.Name, name, value, resp.StatusCode)
	}
}

// Metrics returns the counters and gauges as Prometheus reads them.
func (e *Envoy) Metrics() measure.Metrics {
	e.t.Helper()
	return fatal.Get(measure.Scrape(context.Background(), &client, "http://"+e.Admin+"/stats/prometheus"))(e.t)
}
