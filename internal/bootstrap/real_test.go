package bootstrap

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/weirlimit/weir/internal/bootstrap/acl"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// agent prepares an agent of Consul with the files of a role, as the machines of Terraform have them, and returns
// its address and that of its gossip.
func agent(t *testing.T, dir, role, region, join string) (*proc.Process, string, string) {
	t.Helper()
	files := filepath.Join(dir, region, role)
	http, serf, port := proc.FreeAddr(t), proc.FreeAddr(t), func(addr string) int {
		_, text, _ := net.SplitHostPort(addr)
		n, _ := strconv.Atoi(text)
		return n
	}
	config := map[string]any{
		"datacenter": region, "primary_datacenter": "eu", "node_name": region + "-" + role + "-1", "data_dir": t.TempDir(), "bind_addr": "127.0.0.1",
		"server": role == "consul", "log_level": "warn", "disable_update_check": true,
		"ports": map[string]int{
			"http": port(http), "dns": proc.FreePort(t), "server": proc.FreePort(t), "serf_lan": port(serf), "serf_wan": proc.FreePort(t),
			"grpc": -1, "grpc_tls": -1,
		},
		"acl": map[string]any{"enabled": true, "default_policy": "deny"},
		"tls": map[string]any{
			"defaults": map[string]any{
				"ca_file": files + "/consul-ca.pem", "cert_file": files + "/consul-cert.pem", "key_file": files + "/consul-key.pem",
				"verify_incoming": true, "verify_outgoing": true,
			},
			"https": map[string]bool{"verify_incoming": false}, "internal_rpc": map[string]bool{"verify_server_hostname": true},
		},
	}
	if role == "consul" {
		config["bootstrap_expect"] = 1
	} else {
		config["retry_join"], config["retry_interval"] = []string{join}, "200ms"
	}
	text := fatal.Get(json.Marshal(config))(t)
	logs := proc.LogDir(t)
	own := proc.WriteFile(t, filepath.Join(logs, role+".json"), string(text))
	return proc.Start(t, logs, role, proc.Built(t, ".tools/consul", "setup"), "agent", "-config-file", own, "-config-file", files+"/consul.json"), http, serf
}

// A server and a PoP's agent of Consul find each other with the files of their roles, and register when the
// server has made the tokens of its acl.json. The key of gossip is replaced as docs/bootstrap.md has it.
func TestFilesInConsul(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("runs in make test-long")
	}
	o := options(t)
	o.Regions = []string{"eu"}
	_, _, err := Run(o, time.Now())
	fatal.If(t, err)
	_, server, serf := agent(t, o.Dir, "consul", "eu", "")
	_, pop, _ := agent(t, o.Dir, "pop", "eu", serf)
	f := fatal.Get(acl.Read(filepath.Join(o.Dir, "eu", "consul", "acl.json")))(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	fatal.If(t, acl.Ensure(ctx, server, "", f, false, func(string) {}))
	client := fatal.Get(api.NewClient(&api.Config{Address: pop, Token: f.Management.Secret}))(t)
	await := func(names ...string) {
		t.Helper()
		proc.Await(t, time.Minute, "nodes in the catalog", func() string {
			nodes, _, err := client.Catalog().Nodes(nil)
			for _, name := range names {
				if !slices.ContainsFunc(nodes, func(n *api.Node) bool { return n.Node == name && n.Meta["consul-version"] != "" }) { // which only its agent states
					return fmt.Sprintf("%s is not there, or did not register itself, %v", name, err)
				}
			}
			return ""
		})
	}
	await("eu-consul-1", "eu-pop-1")
	for _, a := range []string{server, pop} {
		c, _ := api.NewClient(&api.Config{Address: a, Token: f.Management.Secret})
		if self, err := c.Agent().Self(); err != nil || self["Stats"]["serf_lan"].(map[string]any)["encrypted"] != "true" {
			t.Errorf("gossip of %s is not encrypted, %v", a, err)
		}
	}
	keyring := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(proc.Built(t, ".tools/consul", "setup"), append([]string{"keyring"}, args...)...)
		cmd.Env = []string{"CONSUL_HTTP_ADDR=" + server, "CONSUL_HTTP_TOKEN_FILE=" + filepath.Join(o.Dir, "people", "management-token")}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("consul keyring %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	o.Rotate = "gossip"
	s, is := run(t, o, time.Now())
	former, key := s.Gossip, strings.TrimSpace(is["people/gossip-key"])
	keyring("-install", key)
	run(t, o, time.Now())
	keyring("-install", key)
	keyring("-use", key)
	keyring("-remove", former)
	if list := keyring("-list"); strings.Contains(list, former) || strings.Count(list, key) != 2 { // of LAN and WAN
		t.Errorf("keys at the end, of which %s is the new one:\n%s", key, list)
	}
	agent(t, o.Dir, "service", "eu", serf)
	await("eu-service-1")
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
