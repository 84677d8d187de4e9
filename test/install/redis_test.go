package install

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// With the arguments of the manifest that wait for it the region speaks TLS to a Redis Cluster that
// speaks nothing else, demands a certificate, and has the user weir with its permissions alone.
func TestRegionCallsRedisOverTLS(t *testing.T) {
	more := regional.uncommented(t, "--redis-tls")
	if len(more) != 5 {
		t.Fatalf("%s has %q to uncomment, want five arguments", regionManifest, more)
	}
	acl, err := os.ReadFile(filepath.Join(proc.Root(t), "internal", "redis", "redisstore", "weir.acl"))
	if err != nil {
		t.Fatal(err)
	}
	_, user, _ := strings.Cut(string(acl), "\nuser ") // below comments
	user = strings.Replace(strings.TrimSpace(user), ">PASSWORD", ">secret", 1)
	authority := redistest.NewAuthority(t)
	redis := redistest.StartCluster(t, 3, 0, redistest.TLS(authority), redistest.Users("user "+user))

	a, err := pki.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	dir := proc.LogDir(t)
	etc := filepath.Join(dir, "eu")
	mounted(t, a, etc, "weir-regional", "weir://region/eu")
	secret := filepath.Join(etc, "redis")
	if err := os.MkdirAll(secret, 0o755); err != nil {
		t.Fatal(err)
	}
	proc.WriteFile(t, filepath.Join(secret, "password"), "secret\n")
	for file, from := range map[string]string{"ca.crt": authority.CA, "tls.crt": authority.ClientCert, "tls.key": authority.ClientKey} {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		proc.WriteFile(t, filepath.Join(secret, file), string(content))
	}
	admin := proc.FreeAddr(t)
	here := strings.NewReplacer("0.0.0.0:8080", proc.FreeAddr(t), "0.0.0.0:8090", admin, "/etc/weir", etc,
		"redis-cluster.redis.svc:6379", redis.Addrs()[0], "redis-cluster.redis.svc", "localhost")
	argv := []string{regional.built(t)}
	for _, arg := range append(regional.args(t), more...) {
		argv = append(argv, here.Replace(arg))
	}
	proc.Start(t, dir, "weir-regional", argv...).AwaitReady("http://" + admin + "/readyz")
	if m, err := measure.Scrape(t.Context(), http.DefaultClient, "http://"+admin+"/metrics"); err != nil || m["weir_redis_masters"] != 3 {
		t.Errorf("the region found %v masters, %v, want 3", m["weir_redis_masters"], err)
	}
}
