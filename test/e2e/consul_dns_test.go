package e2e

import (
	"net"
	"testing"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// A PoP that finds its region through Consul starts while DNS does not answer. That it finds its replicas, and keeps them while
// Consul does not answer, is in script 5-consul-leader-killed of test/regions.
func TestStartWithoutDNS(t *testing.T) {
	onlyLong(t)
	t.Parallel()
	silent, err := net.ListenPacket("udp", "127.0.0.1:0") // nobody reads the questions
	fatal.If(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	e := envoy.New(t, envoy.Config{Dir: proc.LogDir(t), Name: "pop", Listener: "pop", Workers: 1})
	e.Bootstrap.FindRegion("eu", "8080", silent.LocalAddr().String())
	e.Start()
}
