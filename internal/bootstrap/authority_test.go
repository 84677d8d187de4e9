package bootstrap

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/certs"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// An authority is replaced without an outage: in each step, whoever has the new files and whoever has those
// of the step before accept each other, with the TLS that the programs have.
func TestRotateAuthority(t *testing.T) {
	t.Parallel()
	o := options(t)
	run(t, o, time.Now())
	steps := []string{copied(t, o.Dir)}
	o.Rotate = "authority"
	for range 3 {
		run(t, o, time.Now())
		steps = append(steps, copied(t, o.Dir))
	}
	for i, dir := range steps {
		for _, other := range steps[max(i-1, 0):min(i+2, len(steps))] {
			if err := shake(t, dir, other); err != nil {
				t.Errorf("%s calls %s: %v", filepath.Base(dir), filepath.Base(other), err)
			}
		}
	}
	if shake(t, steps[0], steps[3]) == nil {
		t.Error("the former authority is accepted at the end")
	}
	authorities := func(dir string) string { return string(fatal.Get(os.ReadFile(filepath.Join(dir, "eu/pop/ca.pem")))(t)) }
	for i, dir := range steps[1:] {
		if authorities(dir) == authorities(steps[i]) {
			t.Errorf("step %d did not change the authorities", i+1)
		}
	}
}

// copied is a directory with the files as they are now.
func copied(t *testing.T, from string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	fatal.If(t, os.CopyFS(dir, os.DirFS(from)))
	return dir
}

// shake makes a connection of a PoP with the files of one directory to a replica with those of another.
func shake(t *testing.T, pop, service string) error {
	t.Helper()
	set := func(dir string) *certs.Set {
		s, err := certs.Load("test", certs.Files{Cert: dir + "/cert.pem", Key: dir + "/key.pem", CA: dir + "/ca.pem"}, nil, slog.New(slog.DiscardHandler))
		fatal.If(t, err)
		return s
	}
	near, far := net.Pipe()
	defer near.Close()
	rejected := make(chan error, 1)
	go func() {
		defer far.Close()
		server := tls.Server(far, set(service+"/eu/service").Server(nil, "h2"))
		rejected <- server.Handshake()
		_, _ = io.Copy(io.Discard, server)
	}()
	if err := tls.Client(near, set(pop+"/eu/pop").Client("weir-regional", "h2")()).Handshake(); err != nil {
		return err
	}
	return <-rejected
}
