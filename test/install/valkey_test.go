package install

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/proc"
)

// valkeys are the nodes of the chart's Valkey Cluster, on addresses of this machine, by the scripts that their
// pods have.
type valkeys struct {
	t     *testing.T
	dir   string
	bin   string // where its programs are
	port  int
	files map[string]string // the ConfigMap
	nodes []*proc.Process
	addrs []string
}

const valkeyPassword = `a b"\c` // of what files of Valkey need to quote

func startValkeys(t *testing.T) *valkeys {
	t.Helper()
	v := &valkeys{t: t, dir: proc.LogDir(t), port: proc.FreePort(t), files: map[string]string{}}
	all := rendered(t, set("store=valkey")...)
	for name, text := range at(t, resource(t, all, "ConfigMap", "weir-valkey"), "data").(node) {
		v.files[name] = text.(string)
	}
	v.nodes = make([]*proc.Process, at(t, resource(t, all, "StatefulSet", "weir-valkey"), "spec", "replicas").(int))
	proc.WriteFile(t, filepath.Join(v.dir, "password"), valkeyPassword+"\n")
	// The Valkey that `make setup` has got, or else the system's Redis under its name.
	v.bin = filepath.Join(proc.Root(t), ".tools", "stores")
	if _, err := os.Stat(filepath.Join(v.bin, "valkey-server")); err != nil {
		v.bin = t.TempDir()
		for _, name := range []string{"server", "cli"} {
			script := proc.WriteFile(t, filepath.Join(v.bin, "valkey-"+name), "#!/bin/sh\nexec redis-"+name+` "$@"`+"\n")
			fatal.If(t, os.Chmod(script, 0o755))
		}
	}
	return v
}

// env is that of a pod.
func (v *valkeys) env(more ...string) []string {
	return append([]string{"PATH=" + v.bin + ":" + os.Getenv("PATH"), "NODES=" + strings.Join(v.addrs, " "),
		"PORT=" + strconv.Itoa(v.port), "SECRET=" + v.dir}, more...)
}

// begin starts all nodes on addresses of this network: 127.0.NET.x.
func (v *valkeys) begin(net int) {
	v.t.Helper()
	v.addrs = nil
	for i := range v.nodes {
		v.addrs = append(v.addrs, fmt.Sprintf("127.0.%d.%d", net, i+1))
	}
	for i := range v.nodes {
		v.beginNode(i)
	}
}

func (v *valkeys) beginNode(i int) {
	v.t.Helper()
	etc := filepath.Join(v.dir, strconv.Itoa(i))
	run := filepath.Join(etc, "run")
	fatal.If(v.t, os.MkdirAll(run, 0o755))
	here := strings.NewReplacer("/data/", etc+"/", "bind * -::*", "bind "+v.addrs[i])
	for name, text := range v.files {
		proc.WriteFile(v.t, filepath.Join(etc, name), here.Replace(text))
	}
	// A replica leaves dump.rdb in its working directory, of pods /data.
	env := v.env("NODE_IP="+v.addrs[i], "ETC="+etc, "RUN="+run, "MAX_MEMORY=64mb")
	v.nodes[i] = proc.Start(v.t, v.dir, fmt.Sprintf("valkey-%d", i), append(append([]string{"env", "-C", etc}, env...), "sh", filepath.Join(etc, "valkey-node.sh"))...)
}

// do runs a command at a node, as the user that makes the cluster.
func (v *valkeys) do(i int, args ...string) string {
	v.t.Helper()
	cmd := exec.CommandContext(v.t.Context(), filepath.Join(v.bin, "valkey-cli"), append([]string{"-h", v.addrs[i], "-p", strconv.Itoa(v.port)}, args...)...)
	cmd.Env = v.env("REDISCLI_AUTH=" + valkeyPassword)
	out, _ := cmd.CombinedOutput() // what it says decides
	return string(out)
}

const served = "the cluster serves all slots"

// job runs the script of the Job, for as long as this.
func (v *valkeys) job(most time.Duration) (string, error) {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.t.Context(), most)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", v.files["valkey-cluster.sh"])
	cmd.Env, cmd.WaitDelay = v.env(), time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (v *valkeys) makeCluster() {
	v.t.Helper()
	if out, err := v.job(2 * time.Minute); err != nil || !strings.Contains(out, served) {
		v.t.Fatalf("%v\n%s", err, out)
	}
}

// holder is the node that has the key of a counter, as its master.
func (v *valkeys) holder(key string) int {
	v.t.Helper()
	for i := range v.nodes {
		if v.do(i, "--user", "weir", "get", key) == "1\n" {
			return i
		}
	}
	v.t.Fatalf("no node has %s", key)
	return -1
}

// places are the ids of all nodes that have slots or a master, with those.
func (v *valkeys) places() map[string]string {
	v.t.Helper()
	all := map[string]string{}
	for line := range strings.Lines(v.do(0, "cluster", "nodes")) {
		f := strings.Fields(line)
		switch {
		case len(f) < 8 || strings.Contains(f[2], "fail") || f[7] != "connected":
		case strings.Contains(f[2], "slave"):
			all[f[0]] = f[3]
		case len(f) > 8:
			all[f[0]] = strings.Join(f[8:], " ")
		}
	}
	return all
}

// wrong says what keeps this from being a cluster of three masters with a replica each.
func (v *valkeys) wrong() string {
	places, replicated := v.places(), map[string]bool{}
	for _, place := range places {
		replicated[places[place]] = true // the slots of a replica's master; of a master nothing
	}
	want := []string{"", "0-5460", "10923-16383", "5461-10922"}
	if len(places) != 6 || !slices.Equal(slices.Sorted(maps.Keys(replicated)), want) {
		return fmt.Sprint(places)
	}
	for i := range v.nodes {
		if info := v.do(i, "cluster", "info"); !strings.Contains(info, "cluster_state:ok") {
			return info
		}
	}
	return ""
}

// The nodes of the chart find each other, and its Job makes a cluster of them, after a run that was cut, too. Another
// run changes nothing. A master that crashes and starts again at once does not come back as an empty master: its replica has
// its place, and the counters. The cluster is there again when all nodes come back at other addresses, without the Job, which
// gives a node that has lost its volume a place. The region of the chart counts there, with its own user. The Job does not
// end while a master and its replica are unavailable. No node starts with an empty password.
func TestValkeyOfChart(t *testing.T) {
	t.Parallel()
	v := startValkeys(t)
	v.begin(77)
	proc.Eventually(t, 0, "a node answers", func() bool { return strings.Contains(v.do(0, "cluster", "info"), "cluster_state") })
	if out := v.do(0, "cluster", "addslotsrange", "0", "5460"); !strings.HasPrefix(out, "OK") {
		t.Fatal(out)
	}
	whole := func() {
		t.Helper()
		proc.Await(t, time.Minute, "three masters and their replicas", v.wrong)
	}
	v.makeCluster()
	whole()
	before := v.places()
	v.makeCluster()
	if after := v.places(); !maps.Equal(before, after) {
		t.Errorf("another run made %v of %v", after, before)
	}
	if out := v.do(0, "get", "a"); !strings.Contains(out, "NOPERM") {
		t.Errorf("the user that makes the cluster may read: %s", out)
	}

	if out := v.do(0, "--user", "weir", "-c", "set", "weir:a", "1"); out != "OK\n" {
		t.Fatal(out)
	}
	master := v.holder("weir:a")
	proc.Eventually(t, time.Minute, "its replica has a copy", func() bool { // before that no replica is elected
		return strings.Contains(v.nodes[master].Log(), "Synchronization with replica")
	})
	v.nodes[master].Kill()
	v.beginNode(master)
	proc.Eventually(t, time.Minute, "it is back", func() bool { return strings.Contains(v.do(master, "ping"), "PONG") })
	whole()
	replica := v.holder("weir:a")
	if replica == master {
		t.Error("the master that crashed is the master all the same")
	}

	for _, n := range v.nodes {
		n.Kill()
	}
	v.begin(78)
	whole()
	v.nodes[master].Kill()
	fatal.If(t, os.RemoveAll(filepath.Join(v.dir, strconv.Itoa(master))))
	v.beginNode(master)
	v.makeCluster()
	whole()

	m := newMachine(t, "weir-valkey.weir.svc:6379", fmt.Sprintf("%s:%d", v.addrs[0], v.port))
	m.password = valkeyPassword
	argv, admin := m.pod(regional.with("store=valkey"), "region", proc.FreeAddr(t), "weir://region/eu")
	proc.Start(t, m.dir, "region", argv...).AwaitReady("http://" + admin + "/readyz")
	if m, err := measure.Scrape(t.Context(), http.DefaultClient, "http://"+admin+"/metrics"); err != nil || m["weir_redis_masters"] != 3 {
		t.Errorf("the region found %v masters, %v, want 3", m["weir_redis_masters"], err)
	}

	v.nodes[replica].Kill()
	v.nodes[master].Kill()
	gone := []string{v.addrs[master], v.addrs[replica]}
	v.addrs = slices.DeleteFunc(v.addrs, func(a string) bool { return slices.Contains(gone, a) })
	proc.Eventually(t, time.Minute, "both are missed", func() bool { return !strings.Contains(v.do(0, "cluster", "info"), "cluster_slots_ok:16384") })
	if out, err := v.job(5 * time.Second); err == nil || strings.Contains(out, served) {
		t.Errorf("a third of the slots is unavailable, and the Job ends: %v\n%s", err, out)
	}
	proc.WriteFile(t, filepath.Join(v.dir, "password"), "\n")
	v.beginNode(0)
	proc.Eventually(t, 0, "a node rejects an empty password", func() bool {
		return strings.Contains(v.nodes[0].Tail(5), "password is empty: put a password into the Secret")
	})
}
