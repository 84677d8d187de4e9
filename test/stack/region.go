package stack

import (
	"bufio"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Region is one weir-regional with its memory store.
type Region struct {
	Addr  string // QuotaService
	Admin string // health and metrics
	*Process

	t     testing.TB
	dir   string
	argv  []string
	rules string // path of its rule file
}

func newRegion(t testing.TB, dir, rules, config string) *Region {
	t.Helper()
	r := &Region{Addr: FreeAddr(t), Admin: FreeAddr(t), t: t, dir: dir}
	r.rules = writeFile(t, filepath.Join(dir, "rules.yaml"), rules)
	r.argv = []string{built(t, "bin/weir-regional", "build"),
		"--rules", r.rules, "--listen", r.Addr, "--admin-listen", r.Admin, "--drain-wait", "0s"}
	if config != "" {
		r.argv = append(r.argv, "--config", writeFile(t, filepath.Join(dir, "region.yaml"), config))
	}
	return r
}

// Start starts the region, or starts it again, and waits until it is ready.
func (r *Region) Start() {
	r.t.Helper()
	r.Process = startProcess(r.t, r.dir, "region", r.argv...)
	Eventually(r.t, 30*time.Second, "the region is ready", func() bool {
		if r.Exited() {
			r.t.Fatalf("the region exited while starting; end of its log:\n%s", tail(r.log, 10))
		}
		resp, err := http.Get("http://" + r.Admin + "/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

// SetRules replaces the rule file in one step, as an operator's tool would.
func (r *Region) SetRules(rules string) {
	r.t.Helper()
	if err := os.Rename(writeFile(r.t, r.rules+".new", rules), r.rules); err != nil {
		r.t.Fatal(err)
	}
}

// Metrics returns the region's samples by name with labels, as /metrics prints
// them: `weir_grants_total{rule="login"}`.
func (r *Region) Metrics() map[string]float64 {
	r.t.Helper()
	resp, err := http.Get("http://" + r.Admin + "/metrics")
	if err != nil {
		r.t.Fatalf("region: %v", err)
	}
	defer resp.Body.Close()
	samples := map[string]float64{}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		line := lines.Text()
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		if v, err := strconv.ParseFloat(line[at+1:], 64); err == nil {
			samples[line[:at]] = v
		}
	}
	return samples
}
