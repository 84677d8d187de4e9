package bootstrap

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/redistest"
)

// A server of Consul runs with the files of its role, and the key of its gossip is replaced as docs/bootstrap.md has it. All
// roles run with their files in test/terraform.
func TestGossipKeyIsReplaced(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs in make test-long")
	}
	o := options(t)
	o.Regions = []string{"eu"}
	s, is := run(t, o, time.Now())
	files := filepath.Join(o.Dir, "eu", "consul")
	agent := consultest.New(t, proc.LogDir(t), "-datacenter", "eu", "-config-file", files+"/consul.json", "-hcl", fmt.Sprintf(`
acl { enabled = true }
tls { defaults { ca_file = "%[1]s/consul-ca.pem", cert_file = "%[1]s/consul-cert.pem", key_file = "%[1]s/consul-key.pem" } }
`, files))
	agent.Begin()
	keyring := func(args ...string) (out string) {
		t.Helper()
		proc.Await(t, time.Minute, fmt.Sprintf("consul keyring %v", args), func() string {
			cmd := exec.Command(proc.Built(t, ".tools/consul", "setup"), append([]string{"keyring"}, args...)...)
			cmd.Env = []string{"CONSUL_HTTP_ADDR=" + agent.Addr, "CONSUL_HTTP_TOKEN_FILE=" + filepath.Join(o.Dir, "people", "management-token")}
			text, err := cmd.CombinedOutput()
			if out = string(text); err != nil {
				return out
			}
			return ""
		})
		return out
	}
	former := strings.TrimSpace(is["people/gossip-key"])
	if list := keyring("-list"); former != s.Gossip || strings.Count(list, former) != 2 { // of LAN and WAN
		t.Errorf("keys at first, of which %s should be the only one:\n%s", former, list)
	}
	o.Rotate = "gossip"
	_, is = run(t, o, time.Now())
	key := strings.TrimSpace(is["people/gossip-key"])
	keyring("-install", key)
	run(t, o, time.Now())
	keyring("-install", key)
	keyring("-use", key)
	keyring("-remove", former)
	if list := keyring("-list"); strings.Contains(list, former) || strings.Count(list, key) != 2 {
		t.Errorf("keys at the end, of which %s is the new one:\n%s", key, list)
	}
}

// Redis accepts the line of users.acl, the password and the one before, and gives no other rights.
func TestFilesInRedis(t *testing.T) {
	t.Parallel()
	o := options(t)
	first, _ := run(t, o, begin)
	o.Rotate = "redis"
	second, _ := run(t, o, begin)
	server := redistest.Start(t, redistest.Args("--aclfile", filepath.Join(o.Dir, "redis", "eu", "users.acl")))
	set := []any{"SET", "weir:{x}", 1}
	for _, c := range []struct {
		password string
		command  []any
		want     string
	}{
		{second.Redis["eu"].Current, set, "<nil>"},
		{first.Redis["eu"].Current, set, "<nil>"},
		{second.Redis["us"].Current, set, "WRONGPASS"},
		{second.Redis["eu"].Current, []any{"SET", "other", 1}, "NOPERM"},
		{second.Redis["eu"].Current, []any{"FLUSHALL"}, "NOPERM"},
	} {
		client := redis.NewClient(&redis.Options{Addr: server.Addr, Username: redisUser, Password: c.password, Protocol: 2, DisableIdentity: true})
		if err := client.Do(t.Context(), c.command...).Err(); !strings.Contains(fmt.Sprint(err), c.want) {
			t.Errorf("%v: %v, want %s", c.command, err, c.want)
		}
		_ = client.Close()
	}
}
