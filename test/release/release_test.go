package release

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/version"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/proc"
)

// From the archive of this machine alone, in an empty folder, its demo starts a region and the stock Envoy, on ports that
// nobody else has, and a limit holds.
func TestLimitFromArchive(t *testing.T) {
	dir, pop, api := unpacked(t), proc.FreeAddr(t), proc.FreeAddr(t)
	ports := strings.NewReplacer("10000", port(pop), "10001", port(proc.FreeAddr(t)), "9901", port(proc.FreeAddr(t)), "8080", port(proc.FreeAddr(t)), "8090", port(api))
	for _, name := range []string{"run.sh", "pop.yaml"} {
		file := filepath.Join(dir, "envoy", name)
		text := fatal.Get(os.ReadFile(file))(t)
		proc.WriteFile(t, file, ports.Replace(string(text)))
	}
	demo := proc.Start(t, proc.LogDir(t), "demo", "env", "-C", dir, "ENVOY="+envoy.Program(t), "envoy/run.sh")
	defer demo.Stop()
	demo.AwaitUp(func() string {
		if !strings.Contains(demo.Log(), "Ctrl-C stops everything.") {
			return "it has not printed how to stop it"
		}
		return ""
	})
	inARow := 0
	proc.Eventually(t, time.Minute, "each worker has its rules", func() bool {
		resp, _, err := page.Get(t.Context(), &client, "http://"+pop+"/")
		if inARow++; err != nil || resp.Header.Get("RateLimit-Policy") == "" {
			inARow = 0
		}
		return inARow == 10
	})
	proc.Eventually(t, time.Minute, "the region and the filter state this version", func() bool {
		status, err := page.Read(t.Context(), &client, "http://"+api+"/v1/status")
		return err == nil && strings.Count(string(status), `"version":"`+version.Version+`"`) == 2
	})
	statuses := map[int]int{}
	for range 8 {
		resp := fatal.Get(http.Post("http://"+pop+"/login", "", nil))(t)
		resp.Body.Close()
		statuses[resp.StatusCode]++
	}
	if statuses[http.StatusOK] != 5 || statuses[http.StatusTooManyRequests] != 3 {
		t.Errorf("8 logins, of which 5 a minute may pass: %v", statuses)
	}
}

// The command line of the archive is of this version, and writes the filter of the release.
func TestFilterFromArchive(t *testing.T) {
	dir := unpacked(t)
	weir := filepath.Join(dir, "bin", "weir")
	if out, err := exec.CommandContext(t.Context(), weir, "version").CombinedOutput(); err != nil || string(out) != "weir "+version.Version+"\n" {
		t.Errorf("%s, %v", out, err)
	}
	file := filepath.Join(t.TempDir(), "filter.wasm")
	if out, err := exec.CommandContext(t.Context(), weir, "filter", file).CombinedOutput(); err != nil {
		t.Fatalf("%s, %v", out, err)
	}
	got, err := os.ReadFile(file)
	want, failed := os.ReadFile(proc.Released(t, "weir_VERSION.wasm"))
	if err := errors.Join(err, failed); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the filter is not that of the release: %v", err)
	}
}

// The chart of the release has what its links lead to, and renders what its directory does.
func TestChartOfRelease(t *testing.T) {
	render := func(chart string) string {
		cmd := exec.CommandContext(t.Context(), proc.Built(t, ".tools/helm", "helm"), "template", "weir", chart, "--namespace", "weir", "--values", "test/install/testdata/chart/all.values.yaml")
		cmd.Dir, cmd.Stderr = proc.Root(t), t.Output() // where it names each link that it follows
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", cmd, err)
		}
		return string(out)
	}
	if render(proc.Released(t, "weir-VERSION.tgz")) != render("deploy/chart") {
		t.Error("the archive renders something else than the directory")
	}
}

// unpacked is the folder of this machine's archive, alone in a new folder.
func unpacked(t *testing.T) string {
	t.Helper()
	sums := exec.CommandContext(t.Context(), "sha256sum", "--check", "--quiet", "SHA256SUMS")
	sums.Dir = filepath.Dir(proc.Released(t, "SHA256SUMS"))
	if out, err := sums.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", sums, err, out)
	}
	return proc.UnpackRelease(t, t.TempDir())
}

func port(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// client asks on a new connection each time.
var client = http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
