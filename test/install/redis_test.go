package install

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// With the arguments of the chart the region speaks TLS to a Redis Cluster that
// speaks nothing else, demands a certificate, and has the user weir with its permissions alone.
func TestRegionCallsRedisOverTLS(t *testing.T) {
	region := regional.with("redis.tls.enabled=true", "redis.tls.name=redis-cluster.redis.svc", "redis.tls.clientCertificate=true")
	acl, err := os.ReadFile(filepath.Join(proc.Root(t), "internal", "redis", "redisstore", "weir.acl"))
	fatal.If(t, err)
	_, user, _ := strings.Cut(string(acl), "\nuser ") // below comments
	user = strings.Replace(strings.TrimSpace(user), ">PASSWORD", ">secret", 1)
	authority := redistest.NewAuthority(t)
	redis := redistest.StartCluster(t, 3, 0, redistest.TLS(authority), redistest.Users("user "+user))

	m := newMachine(t, "redis-cluster.redis.svc:6379", redis.Addrs()[0], "redis-cluster.redis.svc", "localhost")
	argv, admin := m.pod(region, "eu", proc.FreeAddr(t), "weir://region/eu")
	for file, from := range map[string]string{"ca.crt": authority.CA, "tls.crt": authority.ClientCert, "tls.key": authority.ClientKey} {
		content, err := os.ReadFile(from)
		fatal.If(t, err)
		proc.WriteFile(t, filepath.Join(m.dir, "eu/etc/weir/redis", file), string(content))
	}
	proc.Start(t, m.dir, "weir-regional", argv...).AwaitReady("http://" + admin + "/readyz")
	if m, err := measure.Scrape(t.Context(), http.DefaultClient, "http://"+admin+"/metrics"); err != nil || m["weir_redis_masters"] != 3 {
		t.Errorf("the region found %v masters, %v, want 3", m["weir_redis_masters"], err)
	}
}
