package install

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// istioGateway is a patch of the Deployment that Istio made.
const istioGateway = "deploy/istio-gateway.yaml"

// pod is what a gateway's pods get for Weir.
type pod struct {
	labels       any
	first, proxy node // the init container, and the one of Envoy
	volumes      []any
}

// pods are those of both gateways, by name.
func pods(t *testing.T) map[string]pod {
	t.Helper()
	istioPod := at(t, documents(t, istioGateway)[0], "spec", "template").(node)
	gatewayPod := at(t, documents(t, "deploy/envoy-gateway.yaml")[1], "spec", "provider", "kubernetes", "envoyDeployment").(node)
	proxy := named(t, at(t, istioPod, "spec", "containers"), "istio-proxy")
	return map[string]pod{
		"istio": {
			labels: at(t, istioPod, "metadata", "labels"), first: at(t, istioPod, "spec", "initContainers", "0").(node),
			proxy: proxy, volumes: at(t, istioPod, "spec", "volumes").([]any),
		},
		"envoy-gateway": {
			labels: at(t, gatewayPod, "pod", "labels"), first: at(t, gatewayPod, "initContainers", "0").(node),
			proxy: gatewayPod["container"].(node), volumes: at(t, gatewayPod, "pod", "volumes").([]any),
		},
	}
}

var (
	filename = regexp.MustCompile(`"filename":"([^"]+)"`)
	path     = regexp.MustCompile(`"path_config_source":{"path":"([^"]+)"}`)
)

// files are those that a part of Envoy's configuration names.
func files(t *testing.T, named *regexp.Regexp, part any) (all []string) {
	t.Helper()
	for _, m := range named.FindAllSubmatch(fatal.Get(json.Marshal(part))(t), -1) {
		all = append(all, string(m[1]))
	}
	return all
}

// mounted returns the volume that a container has where a file is.
func (p pod) mounted(t *testing.T, container node, file string) node {
	t.Helper()
	for _, m := range container["volumeMounts"].([]any) {
		if filepath.Dir(file) == at(t, m, "mountPath") {
			return named(t, p.volumes, at(t, m, "name").(string))
		}
	}
	t.Errorf("%v: nothing is mounted for %s", container["name"], file)
	return nil
}

// Every file that the parts of Envoy name is in the pods of the gateways: the image weir writes weir.wasm, the certificates
// are of a Secret, and what names them is of a ConfigMap. Prometheus scrapes these pods.
func TestPods(t *testing.T) {
	monitor := resource(t, rendered(t, set("monitoring.enabled=true")...), "PodMonitor", "weir-pop")
	image := "weir:" + documents(t, "deploy/chart/Chart.yaml")[0]["version"].(string)
	var certificates []string
	for _, name := range secrets {
		certificates = append(certificates, files(t, filename, documents(t, "envoy/"+name)[0])...)
	}
	for name, p := range pods(t) {
		t.Run(name, func(t *testing.T) {
			e := proxies[name].read(t)
			filter := files(t, filename, named(t, managers(e)[0]["http_filters"], "weir"))
			sds := files(t, path, named(t, at(t, e, "static_resources", "clusters"), "weir_region"))
			if want := at(t, monitor, "spec", "selector", "matchLabels"); !reflect.DeepEqual(p.labels, want) {
				t.Errorf("the pods have the labels %v, the monitor selects %v", p.labels, want)
			}
			if len(filter) != 1 || len(certificates) != 3 || len(sds) != len(secrets) {
				t.Fatalf("Envoy reads %q, %q and %q, want one file, three and two", filter, certificates, sds)
			}
			if got, want := p.first["args"], []any{"admin", "export-filter", filter[0]}; !reflect.DeepEqual(got, want) || p.first["image"] != image {
				t.Errorf("%v has %v do %v, want %s and %v", p.first["name"], p.first["image"], got, image, want)
			}
			from, to := p.mounted(t, p.first, filter[0]), p.mounted(t, p.proxy, filter[0])
			if from["emptyDir"] == nil || fmt.Sprint(from) != fmt.Sprint(to) {
				t.Errorf("the filter is copied to %v, and Envoy reads %v", from, to)
			}
			for _, file := range certificates {
				if volume := p.mounted(t, p.proxy, file); volume["secret"] == nil {
					t.Errorf("%s is on %v, want a Secret", file, volume)
				}
			}
			for _, file := range sds {
				if volume := p.mounted(t, p.proxy, file); fmt.Sprint(volume["configMap"]) != "map[name:weir-pop-sds]" || !slices.Contains(secrets, filepath.Base(file)) {
					t.Errorf("%s is on %v, want one of %q of the ConfigMap weir-pop-sds", file, volume, secrets)
				}
			}
		})
	}
}
