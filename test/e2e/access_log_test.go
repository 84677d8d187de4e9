package e2e

import (
	"bufio"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/stack"
)

// A PoP starts with a socket as its standard output, as systemd gives it, and writes its access log there.
func TestAccessLogOnSocket(t *testing.T) {
	t.Parallel()
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(ends[0]), "ours"), os.NewFile(uintptr(ends[1]), "theirs")
	defer func() { _ = theirs.Close() }()
	journal, err := net.FileConn(ours)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = journal.Close() }()
	_ = ours.Close() // journal is a copy

	e := envoy.New(t, envoy.Config{Dir: proc.LogDir(t), Name: "pop", Listener: "pop", Workers: 1})
	e.Bootstrap.OnlyListener("pop")
	// Without a region, and without an upstream, also beside `make run`, which has those of pop.yaml.
	for _, cluster := range []string{"weir_region", "upstream"} {
		e.Bootstrap.SetCluster(cluster, proc.FreeAddr(t))
	}
	e.Output = theirs
	e.Start()
	if r, err := stack.Do(e.Addr, http.MethodGet, "/seen", ""); err != nil || r.Status != http.StatusServiceUnavailable {
		t.Fatalf("%+v, %v, want 503", r, err)
	}
	if err := journal.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(journal); ; {
		if !lines.Scan() {
			t.Fatalf("no line of the request on the socket: %v", lines.Err())
		}
		if strings.Contains(lines.Text(), `"GET /seen" 503`) {
			return
		}
	}
}
