package terraform

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/cgroup"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/pki"
	"github.com/weirlimit/weir/test/kit/proc"
)

// GiB are the memories of machines: c7g.large of a PoP has 4, t4g.small of a Consul server 2.
const GiB = 1 << 30

// unit is what a test applies of a unit of systemd, of a container: the user, the share of memory,
// and what may be written.
type unit struct {
	user     string
	memory   int64 // bytes
	writable []string
	argv     []string
}

// unit reads one of the machine's units. Its memory is a share of the machine's.
func (m *machine) unit(name string, memory int64) (u unit) {
	m.t.Helper()
	percent := int64(100) // without MemoryMax
	for line := range strings.Lines(m.units[name]) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), "="); key {
		case "User":
			u.user = value
		case "ExecStart":
			u.argv = strings.Fields(value)
		case "ReadWritePaths":
			u.writable = append(u.writable, value)
		case "PrivateTmp":
			u.writable = append(u.writable, "/tmp") // which here is not its alone
		case "MemoryMax":
			if _, err := fmt.Sscanf(value, "%d%%", &percent); err != nil {
				m.t.Fatalf("%s: %s: %v", name, line, err)
			}
		}
	}
	if u.memory = memory * percent / 100; u.user == "" || u.argv == nil {
		m.t.Fatalf("%s has no user or no program:\n%s", name, m.units[name])
	}
	return u
}

// unshare is a namespace of mounts with the users of machines, as cloud-init makes them. The first
// argument is the directory of their files.
const unshare = `mount --bind "$0/passwd" /etc/passwd && mount --bind "$0/group" /etc/group || exit
`

// harden is what the units name, as far as it can be had without systemd: all is read-only but what is
// to be written (ProtectSystem), of devices there are few (PrivateDevices), no way leads to a right
// that the user does not have (NoNewPrivileges, CapabilityBoundingSet).
const harden = unshare + `mount -t tmpfs -o mode=755 devices /mnt && for d in null zero full random urandom; do touch /mnt/$d && mount --bind /dev/$d /mnt/$d || exit; done
ln -s /proc/self/fd/1 /mnt/stdout && mount --move /mnt /dev || exit
awk '{ print $5 }' /proc/self/mountinfo | grep -Ev '^/(proc|sys|dev)(/|$)' | while read -r at; do mount -n -o remount,bind,ro "$at" 2>/dev/null; done
for at in $WRITABLE; do mount -n --bind "$at" "$at" && mount -n -o remount,bind,rw "$at" || exit; done
! touch /etc/weir-test 2>/dev/null || { echo "/etc can be written"; exit 1; }
exec setpriv --reuid "$RUN_AS" --regid "$RUN_AS" --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all --pdeathsig KILL -- "$@"`

// users returns a directory with the files of users and groups of this machine and those two of a
// machine of the module.
func users(t *testing.T, dir string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: units run as users of their own, in cgroups")
	}
	if out, err := exec.CommandContext(t.Context(), "unshare", "--mount", "setpriv", "--version").CombinedOutput(); err != nil {
		t.Skipf("needs namespaces of mounts: %v\n%s", err, out)
	}
	for file, lines := range map[string]string{
		"passwd": "weir:x:64001:64001::/:/usr/sbin/nologin\nconsul:x:64002:64002::/:/usr/sbin/nologin\nnonroot:x:65532:65532::/:/usr/sbin/nologin\n",
		"group":  "weir:x:64001:\nconsul:x:64002:\nnonroot:x:65532:\n",
	} {
		here := fatal.Get(os.ReadFile(filepath.Join("/etc", file)))(t)
		proc.WriteFile(t, filepath.Join(dir, file), lines+string(here))
	}
	return dir
}

// start runs a unit as systemd does: as its user, in a cgroup of its size, and with a socket as its
// output, of which its log is a copy.
func (u unit) start(t *testing.T, names, dir, name string) *proc.Process {
	t.Helper()
	argv := append([]string{"env", "RUN_AS=" + u.user, "WRITABLE=" + strings.Join(u.writable, " "), "unshare", "--mount", "--propagation", "private",
		"sh", "-c", harden, names}, u.argv...)
	p := proc.New(t, dir, name, cgroup.New(t, u.memory).Command(argv)...)
	ends := fatal.Get(syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0))(t)
	ours := os.NewFile(uintptr(ends[0]), "journal")
	p.Output = os.NewFile(uintptr(ends[1]), "socket")
	p.Begin()
	_ = p.Output.Close() // the process has it
	log := fatal.Get(os.OpenFile(filepath.Join(dir, name+".log"), os.O_APPEND|os.O_WRONLY, 0))(t)
	go func() { // ends with the process
		_, _ = io.Copy(log, ours)
		_, _ = log.Close(), ours.Close()
	}()
	return p
}

var edge = regexp.MustCompile(`"\[root\] ([^"]+?)(?: \(expand\))?" -> "\[root\] ([^"]+?)(?: \(expand\))?"`)

// after reports whether one resource waits for another one, through others too.
func after(graph map[string][]string, one, other string, seen map[string]bool) bool {
	seen[one] = true
	return slices.ContainsFunc(graph[one], func(next string) bool {
		return next == other || !seen[next] && after(graph, next, other, seen)
	})
}

// ordered plans a directory and fails where a resource may be made or changed before what has to come before it.
func ordered(t *testing.T, dir string, needs map[string][]string) {
	t.Helper()
	must(t, dir, "init")
	graph := map[string][]string{}
	for _, e := range edge.FindAllStringSubmatch(must(t, dir, "graph", "-type=plan"), -1) {
		graph[e[1]] = append(graph[e[1]], e[2])
	}
	for resource, all := range needs {
		for _, before := range all {
			if !after(graph, resource, before, map[string]bool{}) {
				t.Errorf("%s may be there before %s", resource, before)
			}
		}
	}
}

// What AWS demands in an order that no value shows, and what a machine needs at its first boot,
// is there before: whoever uses the network waits for its routes. Without that an apply fails at
// times, or leaves machines without programs.
func TestOrder(t *testing.T) {
	ordered(t, filepath.Join(tree(t), "modules", "region", "modules", "network"), map[string][]string{
		"output.network": {"aws_route.internet", "aws_route_table_association.public", "aws_route.nat",
			"aws_route_table_association.private", "aws_vpc_endpoint.s3"},
		"aws_eip.nat":          {"aws_internet_gateway.this"},
		"aws_nat_gateway.this": {"aws_internet_gateway.this"},
	})
	ordered(t, filepath.Join(tree(t), "modules", "region", "modules", "service"), map[string][]string{
		"aws_ecs_service.this": {"aws_iam_role_policy.execution", "aws_iam_role_policy.task", "aws_vpc_security_group_egress_rule.redis"},
	})
}

// One apply updates in the order that docs/install.md demands: aggregators, the replicas of each region, its PoPs.
func TestOrderOfUpdates(t *testing.T) {
	const service = ".module.service.aws_ecs_service.this"
	needs := map[string][]string{}
	for _, region := range []string{"module.eu", "module.us", "module.ap"} {
		needs[region+service] = []string{"module.aggregator" + service}
		needs[region+".module.edge.aws_autoscaling_group.pop"] = []string{"module.aggregator" + service, region + service}
	}
	ordered(t, example(t, "three-regions", nil), needs)
}

// Envoy takes the bootstrap with all that it can have: certificates for clients and of the upstream, replicas
// by address, traces. Clients get a new certificate when its files are replaced, without a restart.
func TestPoPWithEveryOption(t *testing.T) {
	proc.Built(t, "bin/weir.so", "build")
	for _, filter := range []string{"wasm", "native"} {
		t.Run(filter, func(t *testing.T) { popWithEveryOption(t, filter) })
	}
}

func popWithEveryOption(t *testing.T, filter string) {
	a := pki.NewAuthority()
	dir := proc.LogDir(t)
	secret := func(name string) string { return filepath.Join(dir, "secrets", name) }
	replace := func(kind, name string) {
		t.Helper()
		cert, key := a.Issue(name, name)
		for file, text := range map[string][]byte{"ca.pem": a.PEM, kind + "cert.pem": cert, kind + "key.pem": key} {
			fatal.If(t, os.Rename(proc.WriteFile(t, secret(file+".new"), string(text)), secret(file)))
		}
	}
	for _, sub := range []string{"secrets", "sds"} {
		fatal.If(t, os.Mkdir(filepath.Join(dir, sub), 0o700))
	}
	replace("", "weir://pop/eu")
	replace("client-", "first.example")

	pop := map[string]any{"upstreams": []string{"localhost:9"}, "upstream_tls": map[string]any{"ca": secret("ca.pem"), "name": "app.example"},
		"client_tls": map[string]any{"certificate": secret("client-cert.pem"), "key": secret("client-key.pem")},
		"replicas":   []string{"127.0.0.1:9", "localhost:9"}, "trusted_hops": 1, "filter": filter, "address": "127.0.0.1",
		"port": proc.FreePort(t), "health_port": proc.FreePort(t), "admin_port": proc.FreePort(t)}
	texts, files := bootstrap(t, map[string]any{"region": "eu", "consul": nil, "otlp": "127.0.0.1:9", "pop": pop,
		"service":     map[string]any{"rules": "/etc/weir/rules.yaml"},
		"directories": map[string]any{"config": dir, "secrets": secret(""), "programs": filepath.Dir(proc.Built(t, "bin/weir.wasm", "build"))}})
	for _, file := range files["sds_files"] {
		path, text, _ := strings.Cut(file, "=")
		proc.WriteFile(t, path, text)
	}
	config := proc.WriteFile(t, filepath.Join(dir, "envoy.yaml"), texts["envoy_yaml"])
	at := func(port string) string { return net.JoinHostPort("127.0.0.1", marshal(t, pop[port])) }
	p := proc.Start(t, dir, "envoy", envoy.Program(t), "-c", config, "--disable-hot-restart", "--concurrency", "1", "--log-level", "warning")
	p.AwaitReady("http://" + at("health_port") + "/healthz")

	takes := func(name string) bool {
		c := a.Client()
		c.ServerName = name
		conn, err := tls.Dial("tcp", at("port"), c)
		return err == nil && conn.Close() == nil
	}
	if !takes("first.example") {
		t.Fatal("the PoP has not the certificate for its clients")
	}
	replace("client-", "second.example")
	proc.Eventually(t, time.Minute, "clients get the new certificate", func() bool { return takes("second.example") })
}
