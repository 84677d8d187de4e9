package bootstrap

import (
	"bufio"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
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
	files, logs, address := filepath.Join(o.Dir, "eu", "consul"), proc.LogDir(t), proc.FreeAddr(t)
	_, port, _ := net.SplitHostPort(address)
	own := proc.WriteFile(t, filepath.Join(logs, "own.hcl"), fmt.Sprintf(`
datacenter = "eu"
data_dir = %q
bind_addr = "127.0.0.1"
server = true
bootstrap_expect = 1
acl { enabled = true }
ports { http = %s, dns = -1, server = %d, serf_lan = %d, serf_wan = %d, grpc_tls = -1 }
tls { defaults { ca_file = "%[6]s/consul-ca.pem", cert_file = "%[6]s/consul-cert.pem", key_file = "%[6]s/consul-key.pem" } }
`, t.TempDir(), port, proc.FreePort(t), proc.FreePort(t), proc.FreePort(t), files))
	proc.Start(t, logs, "consul", proc.Built(t, ".tools/consul", "setup"), "agent", "-config-file", own, "-config-file", files+"/consul.json")
	keyring := func(args ...string) (out string) {
		t.Helper()
		proc.Await(t, time.Minute, fmt.Sprintf("consul keyring %v", args), func() string {
			cmd := exec.Command(proc.Built(t, ".tools/consul", "setup"), append([]string{"keyring"}, args...)...)
			cmd.Env = []string{"CONSUL_HTTP_ADDR=" + address, "CONSUL_HTTP_TOKEN_FILE=" + filepath.Join(o.Dir, "people", "management-token")}
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
	addr := proc.FreeAddr(t)
	_, port, _ := net.SplitHostPort(addr)
	redis := proc.Start(t, proc.LogDir(t), "redis", "redis-server", "--port", port, "--save", "", "--aclfile", filepath.Join(o.Dir, "redis", "eu", "users.acl"))
	redis.AwaitReady("tcp://" + addr)
	for _, c := range []struct{ password, command, want string }{
		{second.Redis["eu"].Current, "SET weir:{x} 1", "+OK"},
		{first.Redis["eu"].Current, "SET weir:{x} 1", "+OK"},
		{second.Redis["us"].Current, "SET weir:{x} 1", "-WRONGPASS"},
		{second.Redis["eu"].Current, "SET other 1", "-NOPERM"},
		{second.Redis["eu"].Current, "FLUSHALL", "-NOPERM"},
	} {
		conn := fatal.Get(net.Dial("tcp", addr))(t)
		fmt.Fprintf(conn, "AUTH weir %s\r\n%s\r\n", c.password, c.command)
		in := bufio.NewReader(conn)
		line, _ := in.ReadString('\n')
		if strings.HasPrefix(line, "+") {
			line, _ = in.ReadString('\n')
		}
		if !strings.HasPrefix(line, c.want) {
			t.Errorf("%s: %q, want %s", c.command, line, c.want)
		}
		_ = conn.Close()
	}
}
