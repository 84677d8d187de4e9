package e2e

import (
	"net/http"
	"os"
	"path/filepath"
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
	older, newer := pki.NewLastingAuthority(20*24*time.Hour+time.Hour), pki.NewLastingAuthority(10*24*time.Hour+time.Hour)
	dir := proc.LogDir(t)
	pop, server := newSecret(t, filepath.Join(dir, "pop")), newSecret(t, filepath.Join(dir, "region"))
	issue := func(at secret, a *pki.Authority, names ...string) {
		t.Helper()
		cert, key := a.Issue(filepath.Base(string(at)), names...)
		at.replace(t, cert, key, a.PEM)
	}
	issue(pop, older, "weir://pop/eu")
	issue(server, older, "weir-regional", "weir://region/eu")
	eu := region.New(t, region.Config{Dir: dir, Name: "eu", Rules: popRules, Flags: []string{"--state", "off", "--region", "eu",
		"--tls-cert", server.file("tls.crt"), "--tls-key", server.file("tls.key"), "--tls-client-ca", server.file("ca.crt")}})
	eu.Start()
	s := start(t, stack.Config{PoPs: 1, RegionAddr: eu.Addr, Bootstrap: func(b *envoy.Bootstrap) {
		b.SetTLS("eu", pop.file("tls.crt"), pop.file("tls.key"), pop.file("ca.crt"))
	}})
	p := s.PoPs[0]
	const stat = "wasmcustom.weir.calls.reason.answered"
	const days = "server.days_until_first_cert_expiring" // an alert rests on it
	awaitAnswer := func(what string) {
		t.Helper()
		before := p.Stat(stat)
		proc.Eventually(t, time.Minute, what, func() bool {
			return p.Get("/exact/a").Status == http.StatusOK && p.Stat(stat) > before
		})
	}
	awaitAnswer("an answer with the first certificates")
	envoy.AwaitHealthy(t, p.Admin)
	awaitStat(t, p, days, 20)

	restart := func(a *pki.Authority, region string) { // all connections are new
		issue(server, a, "weir-regional", "weir://region/"+region)
		eu.Kill()
		eu.Start()
	}
	// A replica with a certificate of the same authority that is for another region gets nothing of the PoP, although all
	// else about it is as it should be.
	const rejected, calls = "cluster.weir_region.ssl.fail_verify_san", "cluster.weir_region.upstream_rq_200"
	restart(older, "us")
	before := p.Stat(calls)
	proc.Eventually(t, time.Minute, "the PoP rejects a replica of another region", func() bool { return p.Stat(rejected) > 1 })
	if r := p.Get("/exact/b"); r.Status != http.StatusServiceUnavailable {
		t.Errorf("a request while there is only a replica of another region: %d, want 503", r.Status)
	}
	if n := p.Stat(calls); n != before {
		t.Errorf("a replica of another region answered %d calls", n-before)
	}

	pop.replace(t, []byte("nonsense"), []byte("nonsense"), older.PEM)
	restart(older, "eu")
	awaitAnswer("an answer in spite of files with a mistake")

	issue(pop, newer, "weir://pop/eu")
	restart(newer, "eu")
	awaitAnswer("an answer with certificates of another authority")
	envoy.AwaitHealthy(t, p.Admin)
	awaitStat(t, p, days, 10)
}

// secret is a directory of the files of a Secret. Kubernetes has them in a directory for each
// version, and swaps the link ..data to it.
type secret string

func newSecret(t *testing.T, dir string) secret {
	t.Helper()
	fatal.If(t, os.Mkdir(dir, 0o700))
	s := secret(dir)
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		fatal.If(t, os.Symlink(filepath.Join("..data", name), s.file(name)))
	}
	return s
}

func (s secret) file(name string) string { return filepath.Join(string(s), name) }

// replace replaces all files at once.
func (s secret) replace(t *testing.T, cert, key, authority []byte) {
	t.Helper()
	version := fatal.Get(os.MkdirTemp(string(s), "..v"))(t)
	for name, content := range map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": authority} {
		proc.WriteFile(t, filepath.Join(version, name), string(content))
	}
	next := s.file("..data_tmp")
	fatal.If(t, os.Symlink(filepath.Base(version), next))
	fatal.If(t, os.Rename(next, s.file("..data")))
}
