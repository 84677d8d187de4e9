// Package observability runs what observability/ has on a real Prometheus: each query of
// the dashboards and alerts gets samples from programs that run, and each alert has tests.
package observability

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/proc"
)

// shipped is where the files are that are tested.
const shipped = "observability"

func program(t *testing.T, name string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("runs in make observability-test")
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("%s is not installed: run `make setup`", name)
	}
	return path
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	return string(fatal.Get(os.ReadFile(filepath.Join(append([]string{proc.Root(t)}, path...)...)))(t))
}

// server is a Prometheus that runs the configuration that is shipped.
type server struct {
	t     *testing.T
	addr  string
	began time.Time
}

// startPrometheus scrapes targets, by the name of their file: addresses and labels.
func startPrometheus(t *testing.T, dir string, targets map[string]string) *server {
	t.Helper()
	config := read(t, shipped, "prometheus.yml")
	for _, every := range []string{"scrape_interval", "evaluation_interval"} {
		if !strings.Contains(config, every+": 15s") {
			t.Fatalf("prometheus.yml has no %s of 15s", every)
		}
		config = strings.Replace(config, every+": 15s", every+": 1s", 1) // so that the test is short
	}
	path := proc.WriteFile(t, filepath.Join(dir, "prometheus.yml"), config)
	for name, text := range targets {
		proc.WriteFile(t, filepath.Join(dir, "targets", name+".yaml"), text)
	}
	for _, name := range files(t, shipped, "alerts", "*.yaml") {
		proc.WriteFile(t, filepath.Join(dir, "alerts", name), read(t, shipped, "alerts", name))
	}
	s := &server{t: t, addr: proc.FreeAddr(t), began: time.Now()}
	p := proc.Start(t, dir, "prometheus", program(t, "prometheus"), "--config.file", path, "--web.listen-address", s.addr,
		"--storage.tsdb.path", filepath.Join(dir, "prometheus-data"), "--log.level", "warn")
	p.AwaitReady("http://" + s.addr + "/-/ready")
	return s
}

// get asks the API, and reads the data of its answer into v.
func (s *server) get(v any, path string, query url.Values) error {
	ctx, cancel := context.WithTimeout(s.t.Context(), 30*time.Second)
	defer cancel()
	_, body, err := page.Get(ctx, http.DefaultClient, "http://"+s.addr+"/api/v1/"+path+"?"+query.Encode())
	if err != nil {
		return err
	}
	var answer struct {
		Status, Error string
		Data          json.RawMessage
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return fmt.Errorf("%s: %w: %.200s", path, err, body)
	}
	if answer.Status != "success" {
		return fmt.Errorf("%s", answer.Error)
	}
	return json.Unmarshal(answer.Data, v)
}

// hasNumbers reports whether a query has had a number since a time. A series without one, such as 0 / 0, does not count.
func (s *server) hasNumbers(expr string, since time.Time) (bool, error) {
	var data struct{ Result []struct{ Values [][2]any } }
	err := s.get(&data, "query_range", url.Values{"query": {expr}, "step": {"1"},
		"start": {fmt.Sprint(since.Unix())}, "end": {fmt.Sprint(time.Now().Unix())}})
	for _, series := range data.Result {
		for _, v := range series.Values {
			if n, wrong := strconv.ParseFloat(fmt.Sprint(v[1]), 64); wrong == nil && !math.IsNaN(n) {
				return true, err
			}
		}
	}
	return false, err
}
