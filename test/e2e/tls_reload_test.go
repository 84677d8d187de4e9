package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/quotapb/quotapbconnect"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

const reloadRules = `
rules:
  - { name: all, key: [path], limit: 1000000/1d, algorithm: fixed_window, scope: global, consistency: exact }
`

// Certificates are replaced while calls go on, as Kubernetes does it for the region and file by
// file at the aggregator: each new connection uses the new ones, files with a mistake change
// nothing, and an authority that is taken out or over is refused.
func TestCertificatesReload(t *testing.T) {
	t.Parallel()
	first, second, stranger := newAuthority(t, time.Hour), newAuthority(t, time.Hour), newAuthority(t, time.Hour)
	over := newAuthority(t, -time.Minute)
	r := startReloaded(t, first, second)

	r.mount("2", second, first.PEM, second.PEM) // the aggregator does not accept it yet
	r.trust(first.PEM, second.PEM)
	r.awaitServed("2")
	r.caller.Store(clientOf(t, second, "weir://pop/eu"))
	r.trust(second.PEM) // only with its new certificate does the region get in
	r.link.Cut()
	r.link.Heal()
	r.awaitAnswers()

	writeMount(t, r.dir, "3", []byte("nonsense"), []byte("nonsense"), second.PEM)
	r.awaitMetric(`weir_certificates_ok{of="callers"}`, 0)
	r.awaitMetric(`weir_certificates_ok{of="global"}`, 0)
	proc.Eventually(t, time.Minute, "the log names the file", func() bool {
		return strings.Contains(r.eu.Log(), "the new certificates cannot be used, the old ones stay in force") && strings.Contains(r.eu.Log(), filepath.Join(r.dir, "tls.crt"))
	})
	r.awaitServed("2")
	r.awaitAnswers()

	r.mount("4", second, second.PEM, over.PEM)
	r.awaitMetric(`weir_certificates_ok{of="callers"}`, 1)
	r.awaitMetric(`weir_certificates_ok{of="global"}`, 1)
	r.awaitServed("4")
	for name, a := range map[string]*pki.Authority{"that was taken out": first, "that is over": over, "of nobody": stranger} {
		if _, err := r.call(clientOf(t, a, "weir://pop/eu")); err == nil {
			t.Errorf("a caller of an authority %s is accepted", name)
		}
	}
	for name, pem := range map[string][]byte{"without the region's authority": stranger.PEM, "with one that is over": over.PEM} {
		r.trust(pem)
		r.link.Cut()
		r.link.Heal()
		proc.Await(t, time.Minute, "the aggregator "+name+" refuses the region", func() string {
			if up := r.eu.Metrics()["weir_remote_up"]; up != 0 {
				return fmt.Sprint("weir_remote_up ", up)
			}
			return ""
		})
		r.trust(second.PEM)
		r.awaitAnswers() // by itself
	}
	r.end()
}

// reloaded is a region and its aggregator with certificates that are replaced, and calls of the
// region of which each makes a connection.
type reloaded struct {
	t          *testing.T
	aggregator *region.Region
	trusts     string // its file of the authorities of regions
	link       *stack.Link
	eu         *region.Region
	dir        string // mounted: the region's files
	roots      *x509.CertPool

	mounts map[string]string // serial numbers by version
	caller atomic.Pointer[tls.Certificate]
	seq    atomic.Uint64
	end    func() // of the calls
}

func startReloaded(t *testing.T, first, second *pki.Authority) *reloaded {
	t.Helper()
	dir := proc.LogDir(t)
	r := &reloaded{t: t, dir: filepath.Join(dir, "mount"), trusts: filepath.Join(dir, "regions.pem"), mounts: map[string]string{}, roots: x509.NewCertPool()}
	r.roots.AddCert(first.Certificate)
	r.roots.AddCert(second.Certificate)
	newMount(t, r.dir)
	if err := first.Write(dir, "global", "weir-global"); err != nil {
		t.Fatal(err)
	}
	r.mount("1", first, first.PEM)
	proc.WriteFile(t, r.trusts, string(first.PEM))
	file := func(name string) string { return filepath.Join(r.dir, name) }
	ca := proc.WriteFile(t, filepath.Join(dir, "ca.pem"), string(first.PEM))
	r.aggregator = region.New(t, region.Config{Dir: dir, Name: "global", Rules: reloadRules, Program: "weir-global", Flags: []string{"--state", "off",
		"--tls-cert", filepath.Join(dir, "global.pem"), "--tls-key", filepath.Join(dir, "global.key"), "--tls-client-ca", r.trusts}})
	r.aggregator.Start()
	r.link = stack.NewLink(t, r.aggregator.Addr)
	r.eu = region.New(t, region.Config{Dir: dir, Name: "eu", Rules: reloadRules, Flags: []string{"--state", "off", "--region", "eu",
		"--tls-cert", file("tls.crt"), "--tls-key", file("tls.key"), "--tls-client-ca", file("ca.crt"),
		"--global", r.link.Addr, "--global-tls", "--global-tls-ca", ca, "--global-tls-name", "weir-global",
		"--global-tls-cert", file("tls.crt"), "--global-tls-key", file("tls.key")}})
	r.eu.Start()
	r.caller.Store(clientOf(t, first, "weir://pop/eu"))
	r.callOn()
	r.awaitServed("1")
	r.awaitAnswers()
	return r
}

// callOn makes calls one after the other until the end. None may fail.
func (r *reloaded) callOn() {
	stop := make(chan struct{})
	var calls sync.WaitGroup
	calls.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(20 * time.Millisecond):
			}
			if _, err := r.call(r.caller.Load()); err != nil {
				r.t.Errorf("a call fails while certificates are replaced: %v", err)
				return
			}
		}
	})
	r.end = sync.OnceFunc(func() { close(stop); calls.Wait() })
	r.t.Cleanup(r.end)
}

// seen is what a call shows: the serial number of the region's certificate, and whether the
// aggregator counted it.
type seen struct {
	serial  string
	granted bool
}

// call asks the region for a unit.
func (r *reloaded) call(own *tls.Certificate) (seen, error) {
	answer, err := askUnit(r.eu.Addr, "all", r.seq.Add(1), r.roots, own)
	if err != nil {
		return seen{}, err
	}
	if answer.status != http.StatusOK {
		return seen{}, fmt.Errorf("%d %s", answer.status, answer.text)
	}
	return seen{answer.serial, strings.Contains(answer.text, "STATUS_OK")}, nil
}

// unit is what a region answers, and the serial number of its certificate.
type unit struct {
	status       int
	text, serial string
}

// askUnit asks a region for a unit with a certificate, over a connection of its own.
func askUnit(addr, rule string, seq uint64, roots *x509.CertPool, own *tls.Certificate) (unit, error) {
	client := http.Client{Timeout: time.Minute, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{
		RootCAs: roots, ServerName: "weir-regional", Certificates: []tls.Certificate{*own}}}}
	req, err := http.NewRequest(http.MethodPost, "https://"+addr+quotapbconnect.QuotaServiceAcquireProcedure, strings.NewReader(fmt.Sprintf(
		`{"protocol": 1, "holder": "YmJiYmJiYmJiYmJiYmJiYg==", "seq": %d, "wants": [{"rule": %q, "key": "aw==", "need": 1, "waiting": 1, "want": 1}]}`, seq, rule)))
	if err != nil {
		return unit{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, body, err := page.Do(&client, req)
	if err != nil {
		return unit{}, err
	}
	return unit{resp.StatusCode, string(body), resp.TLS.PeerCertificates[0].SerialNumber.String()}, nil
}

// mount replaces what the region has by a certificate that this authority issues, and by the
// authorities of callers.
func (r *reloaded) mount(version string, a *pki.Authority, callers ...[]byte) {
	r.t.Helper()
	cert, key, err := a.Issue("eu", "weir-regional", "weir://region/eu")
	if err != nil {
		r.t.Fatal(err)
	}
	r.mounts[version] = serialOf(r.t, cert)
	writeMount(r.t, r.dir, version, cert, key, callers...)
}

// newMount makes a directory of the files of a Secret, without them.
func newMount(t *testing.T, dir string) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"tls.crt", "tls.key", "ca.crt"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// writeMount replaces the files of a Secret at once: Kubernetes has them in a directory for each
// version, and swaps the link ..data to it.
func writeMount(t *testing.T, mount, version string, cert, key []byte, authorities ...[]byte) {
	t.Helper()
	dir := filepath.Join(mount, "..v"+version)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"tls.crt": cert, "tls.key": key, "ca.crt": joined(authorities)} {
		proc.WriteFile(t, filepath.Join(dir, name), string(content))
	}
	next := filepath.Join(mount, "..data_tmp")
	if err := os.Symlink(filepath.Base(dir), next); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(mount, "..data")); err != nil {
		t.Fatal(err)
	}
}

// trust replaces the authorities of regions at the aggregator, and waits until it has read them.
func (r *reloaded) trust(authorities ...[]byte) {
	r.t.Helper()
	read := func() int { return strings.Count(r.aggregator.Log(), "callers: new certificates") }
	before := read()
	if err := os.Rename(proc.WriteFile(r.t, r.trusts+".new", string(joined(authorities))), r.trusts); err != nil {
		r.t.Fatal(err)
	}
	proc.Eventually(r.t, time.Minute, "the aggregator reads its authorities", func() bool {
		r.aggregator.Metrics() // a scrape reads them
		return read() > before
	})
}

// awaitServed waits until the region presents the certificate of a version.
func (r *reloaded) awaitServed(version string) {
	r.t.Helper()
	proc.Await(r.t, time.Minute, "the certificate "+version, func() string {
		if got, err := r.call(r.caller.Load()); err != nil || got.serial != r.mounts[version] {
			return fmt.Sprintf("%+v, %v; want the serial number %s", got, err, r.mounts[version])
		}
		return ""
	})
}

// awaitAnswers waits until the aggregator counts.
func (r *reloaded) awaitAnswers() {
	r.t.Helper()
	proc.Await(r.t, time.Minute, "a unit of the aggregator", func() string {
		if got, err := r.call(r.caller.Load()); err != nil || !got.granted {
			return fmt.Sprintf("%+v, %v", got, err)
		}
		return ""
	})
}

func (r *reloaded) awaitMetric(name string, want float64) {
	r.t.Helper()
	proc.Await(r.t, time.Minute, fmt.Sprint(name, " ", want), func() string {
		if got, ok := r.eu.Metrics()[name]; !ok || got != want {
			return fmt.Sprint(got, ok)
		}
		return ""
	})
}

func newAuthority(t *testing.T, life time.Duration) *pki.Authority {
	t.Helper()
	a, err := pki.NewLastingAuthority(life)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// clientOf is a certificate with an hour left, whatever its authority has.
func clientOf(t *testing.T, a *pki.Authority, name string) *tls.Certificate {
	t.Helper()
	cert, key, err := a.IssueUntil(time.Now().Add(time.Hour), "pop", name)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return &pair
}

func serialOf(t *testing.T, text []byte) string {
	t.Helper()
	block, _ := pem.Decode(text)
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return cert.SerialNumber.String()
}

func joined(texts [][]byte) (all []byte) {
	for _, text := range texts {
		all = append(all, text...)
	}
	return all
}
