package e2e

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/quotapb/quotapbconnect"
	"github.com/weirlimit/weir/test/kit/page"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
)

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

func joined(texts [][]byte) (all []byte) {
	for _, text := range texts {
		all = append(all, text...)
	}
	return all
}
