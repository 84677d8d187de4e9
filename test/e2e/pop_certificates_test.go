package e2e

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
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
// nothing.
func TestPoPCertificatesReload(t *testing.T) {
	t.Parallel()
	authorities := make([]*pki.Authority, 2)
	for i := range authorities {
		a, err := pki.NewAuthority()
		if err != nil {
			t.Fatal(err)
		}
		authorities[i] = a
	}
	dir := proc.LogDir(t)
	pop, server := filepath.Join(dir, "pop"), filepath.Join(dir, "region")
	mount := func(at, version string, a *pki.Authority, names ...string) {
		t.Helper()
		cert, key, err := a.Issue(filepath.Base(at), names...)
		if err != nil {
			t.Fatal(err)
		}
		writeMount(t, at, version, cert, key, a.PEM)
	}
	for _, at := range []string{pop, server} {
		newMount(t, at)
	}
	mount(pop, "1", authorities[0], "weir://pop/eu")
	mount(server, "1", authorities[0], "weir-regional", "weir://region/eu")
	file := func(at, name string) string { return filepath.Join(at, name) }
	eu := region.New(t, region.Config{Dir: dir, Name: "eu", Rules: popRules, Flags: []string{"--state", "off", "--region", "eu",
		"--tls-cert", file(server, "tls.crt"), "--tls-key", file(server, "tls.key"), "--tls-client-ca", file(server, "ca.crt")}})
	eu.Start()
	s := stack.Start(t, stack.Config{PoPs: 1, RegionAddr: eu.Addr, Bootstrap: func(b *envoy.Bootstrap) {
		b.SetTLS("eu", file(pop, "tls.crt"), file(pop, "tls.key"), file(pop, "ca.crt"))
	}})
	awaitRules(t, s)
	answered := func() int64 { return stat(s.PoPs[0], "calls.reason.answered") }
	awaitAnswer := func(what string) {
		t.Helper()
		before := answered()
		proc.Eventually(t, time.Minute, what, func() bool {
			return s.PoPs[0].Get("/exact/a").Status == http.StatusOK && answered() > before
		})
	}
	awaitAnswer("an answer with the first certificates")

	writeMount(t, pop, "2", []byte("nonsense"), []byte("nonsense"), authorities[0].PEM)
	eu.Kill()
	eu.Start() // all connections are new
	awaitAnswer("an answer in spite of files with a mistake")

	mount(pop, "3", authorities[1], "weir://pop/eu")
	mount(server, "2", authorities[1], "weir-regional", "weir://region/eu")
	eu.Kill()
	eu.Start()
	awaitAnswer("an answer with certificates of another authority")
}
