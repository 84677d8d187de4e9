// Package pods runs pods of the chart, and what a gateway's pod runs first, as containers of an engine, with the images
// of a release. test/compose/run.sh (`make compose-test`) runs it. It proves images, arguments, users, rights, limits,
// volumes and probes; it claims nothing about a cluster.
package pods

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/measure"
	"github.com/weirlimit/weir/test/kit/proc"
)

// rules have a window that begins with the first request and lasts a day: none ends within the test.
const rules = `
rules:
  - { name: five, match: { path: { prefix: /five/ } }, key: [path], limit: 5/1d, algorithm: fixed_window, align: first_request, timeout: 1s, on_failure: { action: deny, status: 503 } }
`

// command is what a program of the repository prints.
func command(t *testing.T, program, target string, args ...string) []byte {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), proc.Built(t, program, target), args...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", cmd, err, said.String())
	}
	return out
}

// start gives a test an engine with a network for pods and images of the release, and takes all away when it ends.
func start(t *testing.T, images ...string) *engine {
	t.Helper()
	if os.Getenv("WEIR_COMPOSE") == "" {
		t.Skip("make compose-test has an engine for it")
	}
	sweep := func() {
		if out, err := exec.Command("./sweep.sh").CombinedOutput(); err != nil {
			t.Errorf("sweep.sh: %v\n%s", err, out)
		}
	}
	sweep() // what a killed run left
	t.Cleanup(sweep)
	docker(t, nil, "network", "create", "--label", named, "--subnet", network+"0/24", named)
	for _, image := range images {
		load(t, image)
	}
	return &engine{t: t, mounted: map[string]map[string]string{}}
}

// installed is the chart with a Valkey of its own. The engine has its ConfigMaps, and the Secrets that weir admin bootstrap
// prints for it and for a PoP.
func installed(t *testing.T, e *engine) map[string]resource {
	t.Helper()
	dir := t.TempDir()
	all := resources(t, command(t, ".tools/helm", "helm", "template", "weir", filepath.Join(proc.Root(t), "deploy", "chart"), "--namespace", "weir",
		"--set", "image.prefix="+named+"/weir,store=valkey,valkey.replicas=0,keySecrets.secret=weir-key-secrets",
		"--set-file", "rules.text="+proc.WriteFile(t, filepath.Join(dir, "rules.yaml"), rules)))
	secrets := resources(t, command(t, "bin/weir", "build", "admin", "bootstrap", filepath.Join(dir, "weir"), "--regions", "eu", "--kubernetes", "eu"))
	for _, r := range []map[string]resource{all, secrets} {
		for _, r := range r {
			if r.Kind == "ConfigMap" || r.Kind == "Secret" {
				e.mounted[r.Metadata.Name] = map[string]string{}
				maps.Copy(e.mounted[r.Metadata.Name], r.Data)
				maps.Copy(e.mounted[r.Metadata.Name], r.StringData)
			}
		}
	}
	return all
}

// The pods of the chart run as its release says: the nodes of Valkey find each other, the Job makes a cluster of them, and
// the region passes its probes, holds a limit for a PoP, and ends in its time.
func TestChart(t *testing.T) {
	e := start(t, "weir-regional")
	all := installed(t, e)
	nodes := all["StatefulSet weir-valkey"]
	p := nodes.pod(t)
	for i := range nodes.Spec.Replicas {
		host := fmt.Sprint("weir-valkey-", i)
		docker(t, nil, "start", e.create(p, p.Containers[0], host, 10+i, host+".weir-valkey.weir.svc", "weir-valkey.weir.svc"))
	}
	p = all["Job weir-valkey-cluster"].pod(t)
	job := e.create(p, p.Containers[0], "weir-valkey-cluster", 20)
	docker(t, nil, "start", job)
	if status, said := exit(t, job); status != "0" || !strings.Contains(said, "the cluster serves all slots") {
		t.Fatalf("%s: %s", status, said)
	}

	p = all["Deployment weir-regional"].pod(t)
	c := p.Containers[0]
	region := e.create(p, c, "weir-regional", 30, "weir-regional.weir.svc")
	docker(t, nil, "start", region)
	for _, probe := range []probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		probe.passes(t, c, region)
	}
	if said := docker(t, nil, "logs", region); !strings.Contains(said, `"most":"435MiB","by":"cgroup"`) { // 85 % of 512 MiB
		t.Errorf("the region does not follow the limit of the pod: %s", said)
	}
	admitted := statuses(t, popOf(t, e, published(t, c, region, "quota")), 8)
	if admitted[http.StatusOK] != 5 || admitted[http.StatusTooManyRequests] != 3 {
		t.Errorf("8 requests, of which 5 may pass: %v", admitted)
	}
	m, err := measure.Scrape(t.Context(), http.DefaultClient, "http://"+published(t, c, region, "admin")+"/metrics")
	if err != nil || m["weir_redis_masters"] != 3 {
		t.Errorf("the region counts on %v masters, %v, want 3", m["weir_redis_masters"], err)
	}
	c.LivenessProbe.passes(t, c, region)

	began := time.Now()
	docker(t, nil, "stop", region) // after --stop-timeout it kills
	if status, said := exit(t, region); status != "0" {
		t.Errorf("after %v the region ended with %s: %s", time.Since(began), status, said)
	}
}

// published is where a port of a container is on this machine.
func published(t *testing.T, c container, name, port string) string {
	t.Helper()
	for _, p := range c.Ports {
		if p.Name == port {
			return strings.TrimSpace(docker(t, nil, "port", name, fmt.Sprint(p.ContainerPort)))
		}
	}
	t.Fatalf("%s has no port %s", c.Name, port)
	return ""
}

// passes asks as the probe says, as often as it may fail.
func (p probe) passes(t *testing.T, c container, name string) {
	t.Helper()
	url := "http://" + published(t, c, name, p.HTTPGet.Port) + p.HTTPGet.Path
	client := http.Client{Timeout: time.Duration(p.TimeoutSeconds) * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	last := ""
	for range p.FailureThreshold {
		answer, err := client.Get(url)
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
			err = errors.New(answer.Status)
		}
		last = err.Error()
		time.Sleep(time.Duration(p.PeriodSeconds) * time.Second)
	}
	t.Fatalf("%s fails its probe: %s\n%s", name, last, docker(t, nil, "logs", "--tail", "20", name))
}

// popOf starts an Envoy that has the certificate of the PoP's Secret.
func popOf(t *testing.T, e *engine, region string) *envoy.Envoy {
	t.Helper()
	dir := proc.LogDir(t)
	pop := envoy.New(t, envoy.Config{Dir: dir, Name: "pop", Listener: "pop", Workers: 1})
	file := func(name string) string {
		return proc.WriteFile(t, filepath.Join(dir, name), e.mounted["weir-pop-tls"][name])
	}
	pop.Bootstrap.SetTLS("eu", file("tls.crt"), file("tls.key"), file("ca.crt"))
	pop.Bootstrap.SetPlugin(map[string]any{"region": "eu"})
	upstream := proc.FreeAddr(t)
	pop.Bootstrap.SetListener("demo_upstream", upstream)
	pop.Bootstrap.SetCluster("upstream", upstream)
	pop.Bootstrap.SetCluster("weir_region", region)
	pop.Start()
	proc.Await(t, 0, "the PoP has the rules of the region", func() string {
		for stat, n := range pop.Stats("weir.calls") {
			if strings.HasSuffix(stat, ".answered") && n > 0 {
				return ""
			}
		}
		return pop.Tail(5)
	})
	envoy.AwaitHealthy(t, pop.Admin)
	return pop
}

// statuses are how many of so many requests get which status.
func statuses(t *testing.T, pop *envoy.Envoy, requests int) map[int]int {
	t.Helper()
	got := map[int]int{}
	for range requests {
		answer := fatal.Get(http.Get("http://" + pop.Addr + "/five/a"))(t)
		answer.Body.Close()
		got[answer.StatusCode]++
	}
	return got
}

// What the pods of a gateway run first writes the filter of the release into their volume, where their proxy, another
// user, reads it. A volume that it must not write to gets nothing, and the message names it.
func TestGateway(t *testing.T) {
	e := start(t, "weir")
	module := fatal.Get(os.ReadFile(proc.Released(t, "weir_VERSION.wasm")))(t)
	text := fatal.Get(os.ReadFile(filepath.Join(proc.Root(t), "deploy", "istio-gateway.yaml")))(t)
	p := resources(t, text)["Deployment istio-ingressgateway"].pod(t)
	first := p.InitContainers[0]
	first.Image = named + "/" + first.Image
	run := func() (status, said, volume string) {
		name := e.create(p, first, "istio-ingressgateway", 40)
		docker(t, nil, "start", name)
		status, said = exit(t, name)
		volume = docker(t, nil, "inspect", "--format", "{{range .Mounts}}{{.Name}}{{end}}", name)
		docker(t, nil, "rm", name) // its address
		return status, said, volume
	}

	status, said, volume := run()
	if status != "0" || said != "wrote /var/lib/weir/weir.wasm" {
		t.Errorf("%s, %s", status, said)
	}
	got := look(t, nil, volume, 1337, "ls && stat -c '%u %g %a' weir.wasm && sha256sum <weir.wasm")
	if want := fmt.Sprintf("weir.wasm\n65532 65532 644\n%x  -", sha256.Sum256(module)); got != want {
		t.Errorf("the volume has %s, want %s", got, want)
	}

	p.Volumes[0].EmptyDir = nil // a claim, which its user may not write to
	status, said, volume = run()
	if status == "0" || !strings.Contains(said, "/var/lib/weir") || !strings.Contains(said, "permission denied") {
		t.Errorf("without the right to write: %s, %s", status, said)
	}
	if got := look(t, nil, volume, 0, "ls -A"); got != "" {
		t.Errorf("it left %s", got)
	}
}
