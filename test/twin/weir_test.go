package twin

import (
	"strings"
	"testing"
	"time"

	rlspb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
	"github.com/weirlimit/weir/test/kit/region"
)

type mode struct {
	store string // memory, redis or cluster
	flags string // "", exact or charge-rejected
}

func (m mode) chargesRejected() bool { return m.flags == "charge-rejected" }

// startWeir starts a region of one replica with a directory of configurations.
func startWeir(t testing.TB, m mode, dir string) rlspb.RateLimitServiceClient {
	t.Helper()
	var flags []string
	switch m.flags {
	case "exact":
		flags = append(flags, "--ratelimit-consistency", "exact")
	case "charge-rejected":
		flags = append(flags, "--ratelimit-charge-rejected")
	}
	switch m.store {
	case "redis":
		flags = append(flags, "--redis", redistest.Start(t).Addr)
	case "cluster":
		flags = append(flags, "--redis", strings.Join(redistest.StartCluster(t, 3, 0, redistest.NodeTimeout(time.Minute)).Addrs(), ","))
	}
	rls, admin := proc.FreeAddr(t), proc.FreeAddr(t)
	argv := []string{region.Program(t), "--ratelimit-config", dir, "--rls-listen", rls,
		"--listen", proc.FreeAddr(t), "--admin-listen", admin, "--drain-wait", "0s", "--state", "off",
		"--rls-headers", "--rls-metadata", "--log-level", "error", "--rls-budget", "10s", "--redis-timeout", "10s"}
	process := proc.Start(t, proc.LogDir(t), "region", append(argv, flags...)...)
	process.AwaitReady("http://" + admin + "/readyz")
	return dial(t, rls)
}
