package release

import (
	"bytes"
	"debug/elf"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
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
// nobody else has, and a limit holds: with the WASM module, and with the native module.
func TestLimitFromArchive(t *testing.T) {
	t.Run("wasm", func(t *testing.T) { limitFromArchive(t, "") })
	t.Run("native", func(t *testing.T) { limitFromArchive(t, "1") })
}

func limitFromArchive(t *testing.T, native string) {
	dir, pop, api := unpacked(t), proc.FreeAddr(t), proc.FreeAddr(t)
	ports := strings.NewReplacer("10000", port(pop), "10001", port(proc.FreeAddr(t)), "9901", port(proc.FreeAddr(t)), "8080", port(proc.FreeAddr(t)), "8090", port(api))
	for _, name := range []string{"run.sh", "pop.yaml", "native.yaml"} {
		file := filepath.Join(dir, "envoy", name)
		text := fatal.Get(os.ReadFile(file))(t)
		proc.WriteFile(t, file, ports.Replace(string(text)))
	}
	demo := proc.Start(t, proc.LogDir(t), "demo", "env", "-C", dir, "ENVOY="+envoy.Program(t), "NATIVE="+native, "envoy/run.sh")
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

// oldestGlibc is what docs/envoy.md states: the module loads with any later one.
const oldestGlibc = "GLIBC_2.17"

// The native modules of the release are for their architecture, and need no library but glibc, in its old version.
func TestLibraries(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		f := fatal.Get(elf.Open(proc.Released(t, "weir_VERSION_linux_"+arch+".so")))(t)
		t.Cleanup(func() { _ = f.Close() })
		if f.Machine != machine || f.Type != elf.ET_DYN {
			t.Errorf("%s: %v, %v", arch, f.Machine, f.Type)
		}
		for _, library := range fatal.Get(f.ImportedLibraries())(t) {
			if library != "libc.so.6" && library != "libpthread.so.0" {
				t.Errorf("%s needs %s", arch, library)
			}
		}
		for _, need := range fatal.Get(f.DynamicVersionNeeds())(t) {
			for _, version := range need.Needs {
				if slices.Compare(glibc(t, version.Dep), glibc(t, oldestGlibc)) > 0 {
					t.Errorf("%s: %s needs %s, later than %s", arch, need.Name, version.Dep, oldestGlibc)
				}
			}
		}
	}
}

// glibc are the numbers of a version such as GLIBC_2.2.5.
func glibc(t *testing.T, version string) (numbers []int) {
	for _, part := range strings.Split(strings.TrimPrefix(version, "GLIBC_"), ".") {
		numbers = append(numbers, fatal.Get(strconv.Atoi(part))(t))
	}
	return numbers
}

// The command line of the archive is of this version, and writes the filter of the release.
func TestFilterFromArchive(t *testing.T) {
	dir := unpacked(t)
	weir := filepath.Join(dir, "bin", "weir")
	if out := proc.Run(t, exec.CommandContext(t.Context(), weir, "version")); out != "weir "+version.Version+"\n" {
		t.Errorf("weir version prints %q", out)
	}
	for _, name := range []string{"weir_VERSION.wasm", "weir_VERSION_linux_" + runtime.GOARCH + ".so"} {
		file := filepath.Join(t.TempDir(), name)
		proc.Run(t, exec.CommandContext(t.Context(), weir, "admin", "export-filter", file))
		got, err := os.ReadFile(file)
		want, failed := os.ReadFile(proc.Released(t, name))
		if err := errors.Join(err, failed); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not that of the release: %v", name, err)
		}
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
	proc.Run(t, sums)
	return proc.UnpackRelease(t, t.TempDir())
}

func port(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// client asks on a new connection each time.
var client = http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
