package stack

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// PoP is one Envoy with the filter.
type PoP struct {
	Name  string
	Addr  string // where clients call it
	Admin string
	// Link is the network between this PoP and its region; nil without Config.Links.
	Link *Link
	*Process

	t        testing.TB
	argv     []string
	dir      string
	baseID   string // file with what names the old and the new Envoy of a hot restart
	startErr error  // of awaitReady, which may run beside others
}

type popConfig struct {
	dir, name, region, upstream string
	workers                     int
	link                        *Link
	plugin                      map[string]any
	strangers                   bool
	bootstrap                   func(*Bootstrap)
	hotRestart                  bool
}

// newPoP writes a PoP's bootstrap. launch starts it.
func newPoP(t testing.TB, cfg popConfig) *PoP {
	t.Helper()
	p := &PoP{Name: cfg.name, Addr: FreeAddr(t), Admin: FreeAddr(t), Link: cfg.link, t: t, dir: cfg.dir}
	demo := FreeAddr(t)

	b := ReadBootstrap(t)
	b.SetNode(cfg.name)
	b.SetAdmin(p.Admin)
	b.SetListener("pop", p.Addr)
	b.SetListener("demo_upstream", demo)
	b.SetCluster("upstream", demo)
	if cfg.upstream != "" {
		b.SetCluster("upstream", cfg.upstream)
	}
	b.SetCluster("weir_region", cfg.region)
	b.SetModule(filepath.Join(Root(t), "bin", "weir.wasm"))
	b.SetAccessLog(os.DevNull)
	if !cfg.strangers {
		b.TrustClients()
	}
	b.SetPlugin(map[string]any{"pop": cfg.name})
	b.SetPlugin(cfg.plugin)
	if cfg.bootstrap != nil {
		cfg.bootstrap(b)
	}
	if b.moduleIsBuilt() {
		built(t, "bin/weir.wasm", "build")
	}
	p.argv = []string{
		Envoy(t), "-c", writeFile(t, filepath.Join(cfg.dir, cfg.name+".json"), b.JSON()),
		"--concurrency", strconv.Itoa(cfg.workers),
		"--log-level", "warning",
		"--drain-time-s", "1", "--parent-shutdown-time-s", "2",
		"--file-flush-interval-msec", "200", // the access log: soon enough to be read
	}
	if cfg.hotRestart { // several Envoys on one host
		p.baseID = filepath.Join(cfg.dir, cfg.name+".base-id")
		p.argv = append(p.argv, "--use-dynamic-base-id", "--base-id-path", p.baseID)
	} else {
		p.argv = append(p.argv, "--disable-hot-restart")
	}
	return p
}

// HotRestart starts another Envoy that takes the listeners over from the running one,
// which drains for a second and ends one later. It returns the old one's process when
// the new one is ready. Only once per PoP, and only with Config.HotRestart.
func (p *PoP) HotRestart() (old *Process) {
	p.t.Helper()
	id, err := os.ReadFile(p.baseID)
	if err != nil {
		p.t.Fatal(err)
	}
	old = p.Process
	argv := append(p.argv[:len(p.argv)-3:len(p.argv)-3], "--base-id", strings.TrimSpace(string(id)), "--restart-epoch", "1")
	p.Process = startProcess(p.t, p.dir, p.Name+"-new", argv...)
	Eventually(p.t, 90*time.Second, "the old Envoy has handed over", func() bool {
		if p.Exited() {
			p.t.Fatalf("%s exited while starting; end of its log:\n%s", p.Name, tail(p.log, 10))
		}
		resp, err := http.Get("http://" + p.Admin + "/server_info")
		if err != nil {
			return false // the old one has let the port go, the new one does not have it yet
		}
		defer resp.Body.Close()
		info, err := io.ReadAll(resp.Body)
		return err == nil && strings.Contains(string(info), `"restart_epoch": 1`) && strings.Contains(string(info), `"state": "LIVE"`)
	})
	return old
}

// Envoy returns the path of Envoy: what `make setup` installs, or WEIR_ENVOY.
func Envoy(t testing.TB) string {
	t.Helper()
	if path := os.Getenv("WEIR_ENVOY"); path != "" {
		return path
	}
	return built(t, ".tools/venv/bin/envoy", "setup")
}

// launch starts the process; the module takes seconds to compile.
func (p *PoP) launch() {
	p.t.Helper()
	p.Process = startProcess(p.t, p.dir, p.Name, p.argv...)
}

// Start starts a PoP again that was killed or stopped, and waits for it.
func (p *PoP) Start() {
	p.t.Helper()
	p.launch()
	if p.awaitReady(); p.startErr != nil {
		p.t.Fatal(p.startErr)
	}
}

func (p *PoP) awaitReady() {
	deadline := time.Now().Add(90 * time.Second) // 3 s of CPU, on machines that are busy
	for time.Now().Before(deadline) {
		if p.Exited() {
			p.startErr = fmt.Errorf("%s exited while starting; end of its log:\n%s", p.Name, tail(p.log, 10))
			return
		}
		if resp, err := http.Get("http://" + p.Admin + "/ready"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				p.startErr = nil
				return
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	p.startErr = fmt.Errorf("%s is not ready after 90 s", p.Name)
}

// Stats returns the counters and gauges of this Envoy whose name contains part.
func (p *PoP) Stats(part string) map[string]int64 {
	p.t.Helper()
	resp, err := http.Get("http://" + p.Admin + "/stats?filter=" + part)
	if err != nil {
		p.t.Fatalf("%s: %v", p.Name, err)
	}
	defer resp.Body.Close()
	stats := map[string]int64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			stats[name] = n
		}
	}
	return stats
}

// Calls returns how many calls this PoP has made to its region, of every kind.
func (p *PoP) Calls() int64 {
	p.t.Helper()
	const stat = "cluster.weir_region.upstream_rq_total"
	return p.Stats("^" + stat + "$")[stat]
}

// Response is what a client of a PoP got.
type Response struct {
	Status int
	Header http.Header
	Body   string
}

// Get asks the PoP once, on a connection of its own. Headers come in pairs of
// name and value; a header may come twice.
func (p *PoP) Get(path string, headers ...string) Response {
	p.t.Helper()
	r, err := Do(p.Addr, http.MethodGet, path, "", headers...)
	if err != nil {
		p.t.Fatalf("%s: GET %s: %v", p.Name, path, err)
	}
	return r
}

// Do makes one request on a connection of its own.
func Do(addr, method, path, body string, headers ...string) (Response, error) {
	req, err := http.NewRequest(method, "http://"+addr+path, strings.NewReader(body))
	if err != nil {
		return Response{}, err
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	req.Close = true
	client := http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return Response{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return Response{resp.StatusCode, resp.Header, string(text)}, err
}
