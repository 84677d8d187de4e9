package envoy

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"
)

// What the tests run is what is shipped: a PoP's bootstrap differs from
// envoy/pop.yaml in these places and no others.
func TestBootstrapIsTheShippedOne(t *testing.T) {
	shipped, edited := ReadBootstrap(t), ReadBootstrap(t)
	edited.SetNode("pop-7")
	edited.SetAdmin("127.0.0.2:1")
	edited.SetListener("pop", "127.0.0.2:2")
	edited.SetListener("demo_upstream", "127.0.0.2:3")
	edited.SetCluster("upstream", "127.0.0.2:4")
	edited.SetCluster("weir_region", "127.0.0.2:5")
	edited.SetModule("/elsewhere/weir.wasm")
	edited.SetAccessLog("/dev/null")
	edited.SetPlugin(map[string]any{"pop": "pop-7"})

	got := slices.Compact(slices.Sorted(slices.Values(differences("", shipped.tree, edited.tree))))
	const (
		listener = "/static_resources/listeners/%d/address/socket_address/%s"
		cluster  = "/static_resources/clusters/%d/load_assignment/endpoints/0/lb_endpoints/0/endpoint/address/socket_address/%s"
		manager  = "/static_resources/listeners/0/filter_chains/0/filters/0/typed_config"
		plugin   = manager + "/http_filters/0/typed_config/config"
	)
	want := []string{
		"/node/id",
		manager + "/access_log/0/typed_config",
		plugin + "/configuration/value",
		plugin + "/vm_config/code/local/filename",
	}
	for _, field := range []string{"address", "port_value"} {
		want = append(want,
			"/admin/address/socket_address/"+field,
			fmt.Sprintf(listener, 0, field), fmt.Sprintf(listener, 1, field),
			fmt.Sprintf(cluster, 0, field), fmt.Sprintf(cluster, 1, field))
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("changed:\n%q\nwant:\n%q", got, want)
	}
	if p := edited.Plugin(); p["pop"] != "pop-7" || p["region_cluster"] != "weir_region" {
		t.Errorf("plugin JSON after SetPlugin: %v", p)
	}
	var back node
	if err := yaml.Unmarshal([]byte(edited.JSON()), &back); err != nil || len(differences("", edited.tree, back)) > 0 {
		t.Errorf("JSON does not have what the tree has: %v", err)
	}
}

// differences lists the paths at which two trees differ.
func differences(path string, a, b any) []string {
	var paths []string
	switch a := a.(type) {
	case node:
		if b, ok := b.(node); ok && len(a) == len(b) {
			for k := range a {
				paths = append(paths, differences(path+"/"+k, a[k], b[k])...)
			}
			return paths
		}
	case []any:
		if b, ok := b.([]any); ok && len(a) == len(b) {
			for i := range a {
				paths = append(paths, differences(fmt.Sprintf("%s/%d", path, i), a[i], b[i])...)
			}
			return paths
		}
	}
	if !reflect.DeepEqual(a, b) {
		paths = append(paths, path)
	}
	return paths
}
