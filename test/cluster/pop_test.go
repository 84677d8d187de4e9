package cluster

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/envoy/overlay"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

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
