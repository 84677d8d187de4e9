package certs

import (
	"crypto/x509"
	"os"
	"os/exec"
	"testing"
)

// TestRootsWithoutASystem: an image from scratch has no authorities of a system. The program
// trusts those that it brings along, else no managed Redis could be reached by TLS.
func TestRootsWithoutASystem(t *testing.T) {
	const here = "WEIR_TEST_ROOTS"
	if os.Getenv(here) == "" {
		again := exec.Command(os.Args[0], "-test.run=^TestRootsWithoutASystem$")
		again.Env = append(os.Environ(), here+"=1", "SSL_CERT_FILE=/nonexistent", "SSL_CERT_DIR=/nonexistent")
		if out, err := again.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return
	}
	roots, err := x509.SystemCertPool()
	if err != nil || roots.Equal(x509.NewCertPool()) {
		t.Fatalf("no authorities: %v", err)
	}
}
