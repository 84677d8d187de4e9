package install

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// proxies are Envoys with the listeners that a control plane makes, and with what the file of deploy/ does to
// them. Filters come after the one with the name before, or are the first.
var proxies = map[string]struct {
	read   func(t *testing.T) node
	before string
}{
	"istio":         {istio, "envoy.filters.http.cors"},
	"envoy-gateway": {envoyGateway, ""},
}

const managerName = "envoy.filters.network.http_connection_manager"

// managers are the HTTP connection managers of all filter chains.
func managers(e node) (all []node) {
	for _, l := range e["static_resources"].(node)["listeners"].([]any) {
		chains, _ := l.(node)["filter_chains"].([]any)
		if chain, ok := l.(node)["default_filter_chain"]; ok {
			chains = append(chains, chain)
		}
		all = append(all, managersOf(chains...)...)
	}
	return all
}

func managersOf(chains ...any) (all []node) {
	for _, chain := range chains {
		for _, f := range chain.(node)["filters"].([]any) {
			if f := f.(node); f["name"] == managerName {
				all = append(all, f["typed_config"].(node))
			}
		}
	}
	return all
}

func addCluster(e node, cluster any) {
	static := e["static_resources"].(node)
	static["clusters"] = append(static["clusters"].([]any), cluster)
}

// istio does what Istio does with an EnvoyFilter.
func istio(t *testing.T) node {
	t.Helper()
	e := documents(t, "test/install/testdata/istio.yaml")[0]
	for _, patch := range at(t, documents(t, "deploy/istio.yaml")[0], "spec", "configPatches").([]any) {
		value := at(t, patch, "patch", "value").(node)
		switch what := at(t, patch, "applyTo").(string) + " " + at(t, patch, "patch", "operation").(string); what {
		case "HTTP_FILTER INSERT_BEFORE":
			next := at(t, patch, "match", "listener", "filterChain", "filter", "subFilter", "name")
			for _, m := range managers(e) {
				filters := m["http_filters"].([]any)
				i := slices.IndexFunc(filters, func(f any) bool { return f.(node)["name"] == next })
				m["http_filters"] = slices.Insert(filters, i, any(value))
			}
		case "NETWORK_FILTER MERGE":
			if got := at(t, patch, "match", "listener", "filterChain", "filter", "name"); got != managerName {
				t.Errorf("merges into %v", got)
			}
			for _, m := range managers(e) {
				merge(m, value["typed_config"].(node))
			}
		case "CLUSTER ADD":
			addCluster(e, value)
		case "BOOTSTRAP MERGE":
			merge(e, value)
		default:
			t.Errorf("a patch %s", what)
		}
	}
	return e
}

// merge is that of protocol buffers: lists get longer.
func merge(into, from node) {
	for key, value := range from {
		switch value := value.(type) {
		case node:
			if _, ok := into[key].(node); !ok {
				into[key] = node{}
			}
			merge(into[key].(node), value)
		case []any:
			list, _ := into[key].([]any)
			into[key] = append(list, value...)
		default:
			into[key] = value
		}
	}
}

// envoyGateway does what Envoy Gateway does with an EnvoyPatchPolicy and an EnvoyProxy.
func envoyGateway(t *testing.T) node {
	t.Helper()
	e, all := documents(t, "test/install/testdata/envoy-gateway.yaml")[0], documents(t, "deploy/envoy-gateway.yaml")
	for _, patch := range at(t, all[0], "spec", "jsonPatches").([]any) {
		operation := at(t, patch, "operation").(node)
		switch what := at(t, patch, "type").(string) + " " + operation["op"].(string); what {
		case "type.googleapis.com/envoy.config.listener.v3.Listener add":
			listener := named(t, at(t, e, "static_resources", "listeners"), at(t, patch, "name").(string))
			targets := selected(t, listener, operation["jsonPath"].(string))
			if len(targets) == 0 {
				t.Errorf("%s has no %s", listener["name"], operation["jsonPath"])
			}
			for _, target := range targets {
				add(t, target, operation["path"].(string), operation["value"])
			}
		case "type.googleapis.com/envoy.config.cluster.v3.Cluster add":
			addCluster(e, operation["value"])
		default:
			t.Errorf("a patch %s", what)
		}
	}
	var bootstrap node
	fatal.If(t, yaml.Unmarshal([]byte(at(t, all[1], "spec", "bootstrap", "value").(string)), &bootstrap))
	merge(e, bootstrap)
	return e
}

// selected are the HTTP connection managers of a listener that a JSONPath chooses.
func selected(t *testing.T, listener node, path string) []node {
	t.Helper()
	switch chains, _ := strings.CutSuffix(path, ".filters[?(@.name=='"+managerName+"')].typed_config"); chains {
	case "$.default_filter_chain":
		return managersOf(listener["default_filter_chain"])
	case "$.filter_chains[*]":
		return managersOf(listener["filter_chains"].([]any)...)
	}
	t.Fatalf("the tests do not know %s", path)
	return nil
}

// add is that of JSON Patch, for /FIELD and /FIELD/INDEX.
func add(t *testing.T, target node, pointer string, value any) {
	t.Helper()
	field, index, isItem := strings.Cut(strings.TrimPrefix(pointer, "/"), "/")
	if !isItem {
		target[field] = value
		return
	}
	list, _ := target[field].([]any)
	i, err := strconv.Atoi(index)
	if err != nil || i > len(list) {
		t.Fatalf("%s: there are %d", pointer, len(list))
	}
	target[field] = slices.Insert(list, i, value)
}

// Listeners as Istio and Envoy Gateway make them, plain and with TLS, get what envoy/pop.yaml has, in each of
// their filter chains, but for where the module and the region are, the name of that, and the TLS that it demands.
// TestPoPCallsRegion runs it.
func TestPatches(t *testing.T) {
	for name, proxy := range proxies {
		t.Run(name, func(t *testing.T) {
			e := proxy.read(t)
			pop := documents(t, "envoy/pop.yaml")[0]
			manager := at(t, pop, "static_resources", "listeners", "0", "filter_chains", "0", "filters", "0", "typed_config").(node)
			filter := named(t, manager["http_filters"], "weir")
			at(t, filter, "typed_config", "config", "vm_config", "code", "local").(node)["filename"] = "/var/lib/weir/weir.wasm"
			plugin := at(t, filter, "typed_config", "config", "configuration").(node)
			plugin["value"] = strings.Replace(plugin["value"].(string), `"region": "local"`, `"region": "eu"`, 1)
			if n := len(managers(e)); n != 3 {
				t.Errorf("%d HTTP connection managers, want 3", n)
			}
			for _, m := range managers(e) {
				filters := m["http_filters"].([]any)
				i := slices.IndexFunc(filters, func(f any) bool { return reflect.DeepEqual(f, filter) })
				if i < 0 || i > 0 && filters[i-1].(node)["name"] != proxy.before || i == 0 && proxy.before != "" {
					t.Errorf("the filter is not behind %q in %v", proxy.before, filters)
				}
				logs := m["access_log"].([]any)
				if got, want := logs[len(logs)-1], manager["access_log"].([]any)[0]; !reflect.DeepEqual(got, want) {
					t.Errorf("access log %v, want %v", got, want)
				}
				for _, field := range []string{"early_header_mutation_extensions", "use_remote_address", "normalize_path", "merge_slashes", "path_with_escaped_slashes_action"} {
					if !reflect.DeepEqual(m[field], manager[field]) {
						t.Errorf("%s: %v, want %v", field, m[field], manager[field])
					}
				}
			}
			tls := documents(t, "envoy/tls.yaml")[0]
			cluster := named(t, at(t, pop, "static_resources", "clusters"), "weir_region")
			cluster["type"] = "STRICT_DNS"
			at(t, cluster, "load_assignment", "endpoints", "0", "lb_endpoints", "0", "endpoint", "address", "socket_address").(node)["address"] = "weir-regional.weir.svc.cluster.local"
			cluster["transport_socket"] = at(t, tls, "static_resources", "clusters", "0", "transport_socket")
			if got := named(t, at(t, e, "static_resources", "clusters"), "weir_region"); !reflect.DeepEqual(got, cluster) {
				t.Errorf("cluster %v, want %v", got, cluster)
			}
			if !reflect.DeepEqual(e["stats_config"], pop["stats_config"]) {
				t.Errorf("labels %v, want %v", e["stats_config"], pop["stats_config"])
			}
		})
	}
}

// Patches name listeners of the Gateways that are shipped, and these have the settings of the files beside them.
func TestListeners(t *testing.T) {
	gateway, all := documents(t, "deploy/envoy-gateway-listeners.yaml")[0], documents(t, "deploy/envoy-gateway.yaml")
	name := fmt.Sprint(at(t, gateway, "metadata", "namespace"), "/", at(t, gateway, "metadata", "name"), "/")
	for _, patch := range at(t, all[0], "spec", "jsonPatches").([]any) {
		listener, ours := strings.CutPrefix(at(t, patch, "name").(string), name)
		if at(t, patch, "type") == "type.googleapis.com/envoy.config.listener.v3.Listener" {
			if !ours || named(t, at(t, gateway, "spec", "listeners"), listener) == nil {
				t.Errorf("a patch of %v, which is not a listener of %s", at(t, patch, "name"), name)
			}
		}
	}
	if at(t, all[0], "spec", "targetRef", "name") != at(t, gateway, "metadata", "name") ||
		at(t, gateway, "spec", "infrastructure", "parametersRef", "name") != at(t, all[1], "metadata", "name") {
		t.Errorf("the Gateway %v is not that of the patches", gateway)
	}
	site := documents(t, "deploy/istio-listeners.yaml")[0]
	if got, want := at(t, site, "spec", "selector"), at(t, documents(t, "deploy/istio.yaml")[0], "spec", "workloadSelector", "labels"); !reflect.DeepEqual(got, want) {
		t.Errorf("the Gateway selects %v, the filter %v", got, want)
	}
}

// The APIs of Istio and Envoy Gateway for extensions configure the filter as the patches beside them do.
func TestExtensions(t *testing.T) {
	policy := documents(t, "deploy/envoy-gateway-extension.yaml")
	istio := at(t, documents(t, "deploy/istio-extension.yaml")[0], "spec", "wasm").(node)
	filter := at(t, documents(t, "deploy/istio.yaml")[0], "spec", "configPatches", "0", "patch", "value", "typed_config", "config").(node)
	var want node
	fatal.If(t, yaml.Unmarshal([]byte(at(t, filter, "configuration", "value").(string)), &want))
	for _, got := range []any{istio["pluginConfig"], at(t, policy[0], "spec", "dynamicModule", "0", "config")} {
		if !reflect.DeepEqual(got, any(want)) {
			t.Errorf("the filter has %v, want %v", got, want)
		}
	}
	vars := node{}
	for _, v := range at(t, istio, "vmConfig", "env").([]any) {
		vars[v.(node)["name"].(string)] = v.(node)["value"]
	}
	vm := filter["vm_config"].(node)
	if got := []any{istio["url"], istio["pluginName"], istio["failStrategy"], vars}; !reflect.DeepEqual(got, []any{
		"file://" + at(t, vm, "code", "local", "filename").(string), filter["root_id"], filter["failure_policy"], at(t, vm, "environment_variables", "key_values")}) {
		t.Errorf("the VM has %v, want that of deploy/istio.yaml", got)
	}
	module := at(t, policy[1], "spec", "dynamicModules", "0")
	if at(t, module, "name") != at(t, policy[0], "spec", "dynamicModule", "0", "name") || at(t, module, "source", "local", "path") != "/var/lib/weir/weir.so" {
		t.Errorf("the policy has another module than %v", module)
	}
}
