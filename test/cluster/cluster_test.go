// Package cluster installs the chart in a real cluster by the commands of docs/kubernetes.md, and drives it as operators do.
// test/cluster/run.sh (`make cluster-test`) starts the cluster.
package cluster

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/envoy/overlay"
	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// operator is somebody with the documents and the release, in a folder that has what the commands of the page name.
type operator struct {
	t    *testing.T
	dir  string
	page string // docs/kubernetes.md
}

// newOperator begins in an empty cluster, which KUBECONFIG names. It skips the test where there is none.
func newOperator(t *testing.T) *operator {
	t.Helper()
	if os.Getenv("WEIR_CLUSTER") == "" {
		t.Skip("make cluster-test starts the cluster that this test drives")
	}
	root := proc.Root(t)
	o := &operator{t: t, dir: proc.LogDir(t), page: string(fatal.Get(os.ReadFile(filepath.Join(root, "docs/kubernetes.md")))(t))}
	chart := proc.Released(t, "weir-VERSION.tgz")
	for name, path := range map[string]string{
		"bin/weir": proc.Built(t, "bin/weir", "build"), filepath.Base(chart): chart,
		"deploy": filepath.Join(root, "deploy"), "envoy": filepath.Join(root, "envoy"),
	} {
		fatal.If(t, os.MkdirAll(filepath.Dir(filepath.Join(o.dir, name)), 0o755))
		fatal.If(t, os.Symlink(path, filepath.Join(o.dir, name)))
	}
	t.Setenv("PATH", filepath.Join(root, ".tools")+":"+filepath.Join(root, ".tools/kubernetes")+":"+os.Getenv("PATH"))
	for _, home := range []string{"CACHE", "CONFIG", "DATA"} {
		t.Setenv("HELM_"+home+"_HOME", filepath.Join(o.dir, "helm"))
	}
	return o
}

// try runs a command of the shell, and returns all that it prints.
func (o *operator) try(command string, args ...any) (string, error) {
	command = fmt.Sprintf(command, args...)
	began := time.Now()
	cmd := exec.CommandContext(o.t.Context(), "bash", "-o", "pipefail", "-c", command)
	cmd.Dir = o.dir
	// Programs report variables of this test that they do not know.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "WEIR_") })
	out, err := cmd.CombinedOutput()
	if took := time.Since(began); took > 2*time.Second {
		o.t.Logf("%.1f s: %s", took.Seconds(), command)
	}
	return strings.TrimSpace(string(out)), err
}

// run fails the test if the command fails.
func (o *operator) run(command string, args ...any) string {
	o.t.Helper()
	out, err := o.try(command, args...)
	if err != nil {
		pods, _ := o.try("kubectl get pods -A -o wide; kubectl get events -A --sort-by .lastTimestamp | tail -n 20")
		o.t.Fatalf("%s: %v\n%s\n%s", fmt.Sprintf(command, args...), err, out, pods)
	}
	return out
}

// said is the one command of the page that begins so, in backticks or a line of its own.
func (o *operator) said(begin string) string {
	o.t.Helper()
	begin = regexp.QuoteMeta(begin)
	for _, form := range []string{"(?m)^ {4,}(" + begin + ".*)$", "`(" + begin + "[^`]*)`"} {
		if m := regexp.MustCompile(form).FindStringSubmatch(o.page); m != nil {
			return strings.Join(strings.Fields(m[1]), " ")
		}
	}
	o.t.Fatalf("docs/kubernetes.md has no command that begins with %s", begin)
	return ""
}

// follow runs a command of the page, with what stands in the place of words of it, in pairs.
func (o *operator) follow(begin string, replaced ...string) string {
	o.t.Helper()
	return o.run("%s", strings.NewReplacer(replaced...).Replace(o.said(begin)))
}

// values is the first example of the page.
func (o *operator) values() string {
	o.t.Helper()
	m := regexp.MustCompile("(?s) ```yaml\n(.*?) ```").FindStringSubmatch(o.page)
	if m == nil {
		o.t.Fatal("docs/kubernetes.md has no example of values.yaml")
	}
	return regexp.MustCompile("(?m)^ {3}").ReplaceAllString(m[1], "")
}

// await waits for a command to print exactly this.
func (o *operator) await(want, command string, args ...any) {
	o.t.Helper()
	proc.Await(o.t, 3*time.Minute, fmt.Sprintf(command, args...), func() string {
		if got, err := o.try(command, args...); err != nil || got != want {
			return fmt.Sprintf("%q, %v, want %q", got, err, want)
		}
		return ""
	})
}

// forward opens a port of a pod on this machine until the test ends, and returns its address.
func (o *operator) forward(namespace, target string, port int) string {
	o.t.Helper()
	here := proc.FreePort(o.t)
	p := proc.Start(o.t, o.dir, fmt.Sprint("forward-", port, "-", here), "kubectl", "port-forward", "-n", namespace, target, fmt.Sprint(here, ":", port))
	p.AwaitUp(func() string {
		if strings.Contains(p.Log(), "Forwarding from") {
			return ""
		}
		return "it does not listen yet: " + p.Tail(5)
	})
	return fmt.Sprint("127.0.0.1:", here)
}

// offer offers a load for a path to the PoP at an address.
func (o *operator) offer(addr, path string, load drive.Load) *drive.Result {
	o.t.Helper()
	load.Addrs, load.Request = []string{addr}, drive.Get(path)
	result := fatal.Get(drive.Run(o.t.Context(), load))(o.t)
	if result.Failed > 0 {
		o.t.Logf("%s: %d without an answer: %v", path, result.Failed, result.FirstError)
	}
	return result
}

const ok, limited, unavailable = http.StatusOK, http.StatusTooManyRequests, http.StatusServiceUnavailable

// gateway makes what stands in for the ingress gateway of Istio: a Deployment of that name, whose Envoy has the listener of
// envoy/pop.yaml with the filter and the cluster of deploy/istio.yaml. The page's patch adds the rest.
func (o *operator) gateway() {
	o.t.Helper()
	proc.WriteFile(o.t, filepath.Join(o.dir, "envoy.json"), o.bootstrap())
	dockerfile := fatal.Get(os.ReadFile(filepath.Join(proc.Root(o.t), "Dockerfile")))(o.t)
	image := regexp.MustCompile(`(?m)^ARG ENVOY=(.*)$`).FindSubmatch(dockerfile)[1]
	proc.WriteFile(o.t, filepath.Join(o.dir, "gateway.yaml"), `
apiVersion: apps/v1
kind: Deployment
metadata: { name: istio-ingressgateway, namespace: istio-system }
spec:
  selector: { matchLabels: { istio: ingressgateway } }
  template:
    metadata: { labels: { istio: ingressgateway } }
    spec:
      containers:
        - name: istio-proxy
          image: `+string(image)+`
          command: [envoy, -c, /etc/envoy/envoy.json, --concurrency, "1", --disable-hot-restart]
          readinessProbe: { tcpSocket: { port: 10000 }, periodSeconds: 1 }
          volumeMounts: [{ name: bootstrap, mountPath: /etc/envoy }]
      volumes: [{ name: bootstrap, configMap: { name: bootstrap } }]
`)
	o.run("kubectl create configmap bootstrap -n istio-system --from-file envoy.json && kubectl apply -f gateway.yaml")
}

func (o *operator) bootstrap() string {
	o.t.Helper()
	b := envoy.ReadBootstrap(o.t)
	b.SetListener("pop", "0.0.0.0:10000")
	b.DropAccessLog()
	var shipped overlay.Node
	fatal.If(o.t, json.Unmarshal([]byte(b.JSON()), &shipped))
	var filter struct {
		Spec struct {
			Patches []struct {
				To    string `yaml:"applyTo"`
				Patch struct{ Value overlay.Node }
			} `yaml:"configPatches"`
		}
	}
	text := fatal.Get(os.ReadFile(filepath.Join(proc.Root(o.t), "deploy/istio.yaml")))(o.t)
	fatal.If(o.t, yaml.Unmarshal(text, &filter))
	static := shipped["static_resources"].(overlay.Node)
	for _, p := range filter.Spec.Patches {
		switch p.To {
		case "HTTP_FILTER":
			chain := static["listeners"].([]any)[0].(overlay.Node)["filter_chains"].([]any)[0].(overlay.Node)
			filters := chain["filters"].([]any)[0].(overlay.Node)["typed_config"].(overlay.Node)["http_filters"].([]any)
			filters[overlay.Index(filters, "weir")] = p.Patch.Value
		case "CLUSTER":
			clusters := static["clusters"].([]any)
			clusters[overlay.Index(clusters, "weir_region")] = p.Patch.Value
		}
	}
	return string(fatal.Get(json.Marshal(shipped))(o.t))
}
