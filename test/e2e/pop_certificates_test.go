package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

const popRules = `
rules:
  - { name: all, key: [path], limit: 1000000/1d, algorithm: fixed_window, consistency: exact, on_failure: deny, timeout: 1s }
`

// A PoP uses a new certificate and new authorities without a restart: all of a Secret is replaced at once,
// after which the region has and trusts certificates of another authority alone. Files with a mistake change
// nothing. The PoP rejects the replica of another region.
func TestPoPCertificatesReload(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	authorities := make([]*pki.Authority, 2)
	for i := range authorities {
		authorities[i] = pki.NewLastingAuthority(time.Duration(20-10*i)*24*time.Hour + time.Hour)
	}
	dir := proc.LogDir(t)
	pop, server := newSecret(t, filepath.Join(dir, "pop")), newSecret(t, filepath.Join(dir, "region"))
	issue := func(at *secret, a *pki.Authority, names ...string) {
		t.Helper()
		cert, key := a.Issue(filepath.Base(at.dir), names...)
		at.replace(t, cert, key, a.PEM)
	}
	issue(pop, authorities[0], "weir://pop/eu")
	issue(server, authorities[0], "weir-regional", "weir://region/eu")
	eu := region.New(t, region.Config{Dir: dir, Name: "eu", Rules: popRules, Flags: []string{"--state", "off", "--region", "eu",
		"--tls-cert", server.file("tls.crt"), "--tls-key", server.file("tls.key"), "--tls-client-ca", server.file("ca.crt")}})
	eu.Start()
	s := start(t, stack.Config{PoPs: 1, RegionAddr: eu.Addr, Bootstrap: func(b *envoy.Bootstrap) {
		b.SetTLS("eu", pop.file("tls.crt"), pop.file("tls.key"), pop.file("ca.crt"))
	}})
	const stat = "wasmcustom.weir.calls.reason.answered"
	awaitAnswer := func(what string) {
		t.Helper()
		before := s.PoPs[0].Stat(stat)
		proc.Eventually(t, time.Minute, what, func() bool {
			return s.PoPs[0].Get("/exact/a").Status == http.StatusOK && s.PoPs[0].Stat(stat) > before
		})
	}
	awaitAnswer("an answer with the first certificates")
	envoy.AwaitHealthy(t, s.PoPs[0].Admin)
	awaitDays(t, s.PoPs[0], 20)

	issue(server, authorities[0], "weir-regional", "weir://region/us")
	eu.Kill()
	eu.Start()
	popRejectsOthers(t, s.PoPs[0])
	issue(server, authorities[0], "weir-regional", "weir://region/eu")

	pop.replace(t, []byte("nonsense"), []byte("nonsense"), authorities[0].PEM)
	eu.Kill()
	eu.Start() // all connections are new
	awaitAnswer("an answer in spite of files with a mistake")

	issue(pop, authorities[1], "weir://pop/eu")
	issue(server, authorities[1], "weir-regional", "weir://region/eu")
	eu.Kill()
	eu.Start()
	awaitAnswer("an answer with certificates of another authority")
	envoy.AwaitHealthy(t, s.PoPs[0].Admin)
	awaitDays(t, s.PoPs[0], 10)
}

// popRejectsOthers: a replica with a certificate of the same authority that is for another region gets
// nothing of the PoP, although all else about it is as it should be.
func popRejectsOthers(t *testing.T, pop *stack.PoP) {
	t.Helper()
	const rejected, answered = "cluster.weir_region.ssl.fail_verify_san", "cluster.weir_region.upstream_rq_200"
	before := pop.Stat(answered)
	proc.Eventually(t, time.Minute, "the PoP rejects a replica of another region", func() bool { return pop.Stat(rejected) > 1 })
	if r := pop.Get("/exact/b"); r.Status != http.StatusServiceUnavailable {
		t.Errorf("a request while there is only a replica of another region: %d, want 503", r.Status)
	}
	if n := pop.Stat(answered); n != before {
		t.Errorf("a replica of another region answered %d calls", n-before)
	}
}

// secret is a directory of the files of a Secret. Kubernetes has them in a directory for each
// version, and swaps the link ..data to it.
type secret struct {
	dir     string
	version int
}

func newSecret(t *testing.T, dir string) *secret {
	t.Helper()
	fatal.If(t, os.Mkdir(dir, 0o700))
	s := &secret{dir: dir}
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		fatal.If(t, os.Symlink(filepath.Join("..data", name), s.file(name)))
	}
	return s
}

func (s *secret) file(name string) string { return filepath.Join(s.dir, name) }

// replace replaces all files at once.
func (s *secret) replace(t *testing.T, cert, key, authority []byte) {
	t.Helper()
	s.version++
	version := "..v" + strconv.Itoa(s.version)
	fatal.If(t, os.Mkdir(s.file(version), 0o700))
	for name, content := range map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": authority} {
		proc.WriteFile(t, filepath.Join(s.dir, version, name), string(content))
	}
	next := s.file("..data_tmp")
	fatal.If(t, os.Symlink(version, next))
	fatal.If(t, os.Rename(next, s.file("..data")))
}

// awaitDays waits until a PoP shows that the first of its certificates ends in so many days: an alert rests on it.
func awaitDays(t *testing.T, p *stack.PoP, days int64) {
	t.Helper()
	const stat = "server.days_until_first_cert_expiring"
	proc.Await(t, 30*time.Second, fmt.Sprint(stat, " is ", days), func() string {
		if got := p.Stat(stat); got != days {
			return fmt.Sprint(got)
		}
		return ""
	})
}
