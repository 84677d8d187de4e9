package consultest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Config is that of a datacenter. The zero value, but for Dir, is dc1 with one server and without ACL and TLS.
type Config struct {
	Dir     string // for logs, configuration and what agents keep through a restart
	Name    string // empty: dc1
	Servers int    // 0: 1

	// Primary is the datacenter that this one joins over WAN; nil: it is one itself. ACL and
	// TLS are as in the primary.
	Primary *Datacenter
	// ACL rejects what no policy allows.
	ACL bool
	// TLS has the authority of all agents, and of their callers, who must show a
	// certificate; nil: without TLS.
	TLS *pki.Authority
}

// Datacenter is servers, each an agent with its data on disk.
type Datacenter struct {
	Name    string
	Servers []*Agent

	t         proc.T
	cfg       Config
	lan, wan  []string // gossip of the servers
	secondary []*Datacenter
}

// StartDatacenter starts a datacenter, and waits until it has a leader and, if it has a
// primary, until each of the two answers for the other.
func StartDatacenter(t proc.T, cfg Config) *Datacenter {
	t.Helper()
	cfg.Name = cmp.Or(cfg.Name, "dc1")
	if cfg.Primary != nil {
		cfg.ACL, cfg.TLS = cfg.Primary.cfg.ACL, cfg.Primary.cfg.TLS
	}
	d := &Datacenter{Name: cfg.Name, t: t, cfg: cfg}
	n := max(cfg.Servers, 1)
	for range n {
		d.lan, d.wan = append(d.lan, proc.FreeAddr(t)), append(d.wan, proc.FreeAddr(t))
	}
	for i := range n {
		d.Servers = append(d.Servers, d.newServer(i, n))
	}
	for _, a := range d.Servers {
		a.Begin()
	}
	for _, a := range d.Servers {
		a.AwaitLeader()
	}
	if cfg.Primary != nil {
		cfg.Primary.secondary = append(cfg.Primary.secondary, d)
		d.awaitWAN(cfg.Primary)
		cfg.Primary.awaitWAN(d)
	}
	return d
}

// awaitWAN waits until all servers answer for another datacenter.
func (d *Datacenter) awaitWAN(other *Datacenter) {
	d.t.Helper()
	for _, a := range d.Servers {
		a.AwaitUp(func() string {
			_, _, err := a.API(a.Token).Catalog().Nodes(&api.QueryOptions{Datacenter: other.Name})
			return textOf(err)
		})
	}
}

// Leader waits until the servers that are up agree on a leader, and returns it.
func (d *Datacenter) Leader() (leader *Agent) {
	d.t.Helper()
	proc.Await(d.t, time.Minute, "a leader of "+d.Name, func() string {
		leader = nil
		for _, a := range d.Servers {
			if !a.Answers() {
				continue
			}
			address, err := a.leader()
			if err != nil {
				return err.Error()
			}
			server := d.server(address)
			switch {
			case server == nil || !server.Answers():
				return fmt.Sprintf("%s has as leader %q, which is down", a.Name, address)
			case leader != nil && leader != server:
				return leader.Name + " and " + server.Name
			}
			leader = server
		}
		if leader == nil {
			return "no server is up"
		}
		return ""
	})
	return leader
}

func (d *Datacenter) server(address string) *Agent {
	for _, a := range d.Servers {
		if a.server == address {
			return a
		}
	}
	return nil
}

// newServer prepares a server. Its settings are those of a test: what takes seconds or minutes in a network of machines takes
// less.
func (d *Datacenter) newServer(i, n int) *Agent {
	d.t.Helper()
	a, name := newAgent(d.t), fmt.Sprintf("%s-server-%d", d.Name, i+1)
	dir := filepath.Join(d.cfg.Dir, name)
	a.server = proc.FreeAddr(d.t)
	gossip := map[string]any{"gossip_interval": "100ms", "probe_interval": "200ms", "probe_timeout": "200ms", "suspicion_mult": 3}
	ports := map[string]any{
		"http": number(a.Addr), "dns": number(a.DNS), "server": number(a.server), "serf_lan": number(d.lan[i]), "serf_wan": number(d.wan[i]),
		"grpc": -1, "grpc_tls": -1,
	}
	settings := map[string]any{
		"server": true, "bootstrap_expect": n, "node_name": name, "datacenter": d.Name, "data_dir": filepath.Join(dir, "data"), "bind_addr": "127.0.0.1", "client_addr": "127.0.0.1",
		"ports": ports, "log_level": "warn", "disable_update_check": true, "retry_join": d.lan, "retry_interval": "200ms", "retry_interval_wan": "200ms",
		"performance": map[string]any{"raft_multiplier": 1}, "gossip_lan": gossip, "gossip_wan": gossip,
	}
	if p := d.cfg.Primary; p != nil {
		settings["retry_join_wan"] = p.wan
	}
	d.secure(a, dir, settings, ports)
	d.protect(a, settings)
	text := fatal.Get(json.MarshalIndent(settings, "", "  "))(d.t)
	argv := []string{program(d.t), "agent", "-config-file", proc.WriteFile(d.t, filepath.Join(dir, "agent.json"), string(text))}
	a.Process = proc.New(d.t, d.cfg.Dir, name, argv...)
	return a
}

// number is the port of an address.
func number(addr string) int {
	n, _ := strconv.Atoi(portOf(addr)) // is from proc.FreeAddr
	return n
}

// secure gives an agent its certificate: with TLS it takes neither RPC nor HTTP without.
func (d *Datacenter) secure(a *Agent, dir string, settings, ports map[string]any) {
	d.t.Helper()
	authority := d.cfg.TLS
	if authority == nil {
		return
	}
	name := "server." + d.Name + ".consul" // which verify_server_hostname demands
	fatal.If(d.t, os.MkdirAll(dir, 0o755))
	fatal.If(d.t, authority.Write(dir, "agent", name, "localhost", "127.0.0.1"))
	ca, cert, key := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "agent.pem"), filepath.Join(dir, "agent.key")
	settings["tls"] = map[string]any{
		"defaults": map[string]any{
			"ca_file": ca, "cert_file": cert, "key_file": key, "verify_incoming": true, "verify_outgoing": true,
		},
		"internal_rpc": map[string]any{"verify_server_hostname": true},
	}
	ports["http"], ports["https"] = -1, ports["http"]
	a.scheme = "https"
	a.client.Transport = &http.Transport{DisableKeepAlives: true, TLSClientConfig: authority.Client(name)}
}
