package envoy

import (
	"encoding/json"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/envoy/overlay"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Bootstrap is envoy/pop.yaml as a tree that a test may edit. Its methods fail
// the test when the file does not have what they change.
type Bootstrap struct {
	t      proc.T
	tree   node
	native bool // the filter is the native module

	listeners node // has the list of listeners, which may be in a file of their own
	file      string
}

// node is a mapping of the YAML tree.
type node = overlay.Node

// ReadBootstrap reads the bootstrap that is shipped.
func ReadBootstrap(t proc.T) *Bootstrap {
	t.Helper()
	b := &Bootstrap{t: t, tree: node{}, native: Native()}
	b.Lay("pop.yaml")
	b.listeners = b.at(b.tree, "static_resources")
	return b
}

// Lay lays a file, named from envoy/, over the bootstrap, with texts in it replaced: pairs of old and new.
func (b *Bootstrap) Lay(name string, replacements ...string) {
	b.t.Helper()
	over := fatal.Get(overlay.Parse("envoy/"+name, strings.NewReplacer(replacements...).Replace(b.shipped(name))))(b.t)
	overlay.Lay(b.tree, over)
}

// JSON returns the bootstrap as Envoy reads it from a .json file.
func (b *Bootstrap) JSON() string {
	if b.native {
		return b.marshal(overlay.NativeBootstrap(b.tree))
	}
	return b.marshal(b.tree)
}

// SetNode names the PoP.
func (b *Bootstrap) SetNode(id string) { b.at(b.tree, "node")["id"] = id }

// SetAdmin moves the admin endpoint.
func (b *Bootstrap) SetAdmin(addr string) { b.setAddress(b.at(b.tree, "admin"), addr) }

// OnlyListener drops every listener but this one.
func (b *Bootstrap) OnlyListener(name string) {
	b.listeners["listeners"] = []any{b.listener(name)}
}

// SetListener moves a listener.
func (b *Bootstrap) SetListener(name, addr string) {
	b.setAddress(b.listener(name), addr)
}

// SetCluster points a cluster at other addresses.
func (b *Bootstrap) SetCluster(name string, addrs ...string) {
	b.at(b.cluster(name), "load_assignment/endpoints/0")["lb_endpoints"] = b.endpoints(addrs...)
}

// FindRegion has Envoy find the replicas of a region through Consul's DNS, as envoy/consul.yaml
// has it. All of them listen on one port.
func (b *Bootstrap) FindRegion(region, port, dns string) {
	b.Lay("consul.yaml")
	b.SetCluster("weir_region", net.JoinHostPort("weir-regional-"+region+".service.consul", port))
	b.setAddress(node{"address": b.at(b.cluster("weir_region"), "typed_dns_resolver_config/typed_config/resolvers/0")}, dns)
}

// SetTLS has the region called with TLS, as envoy/tls.yaml has it: the name of the region, and files of
// the PoP's certificate, its key and the authorities. Envoy reads them again when they are replaced.
func (b *Bootstrap) SetTLS(region, cert, key, ca string) {
	files := strings.NewReplacer("/etc/weir/tls/tls.crt", cert, "/etc/weir/tls/tls.key", key, "/etc/weir/tls/ca.crt", ca)
	certificate := proc.WriteFile(b.t, cert+".sds.yaml", files.Replace(b.shipped("certificate.yaml")))
	authorities := proc.WriteFile(b.t, ca+".sds.yaml", files.Replace(b.shipped("authorities.yaml")))
	b.Lay("tls.yaml", "weir://region/eu", "weir://region/"+region,
		"/etc/weir/sds/certificate.yaml", certificate, "/etc/weir/sds/authorities.yaml", authorities)
}

// shipped is the text of a file in envoy/.
func (b *Bootstrap) shipped(name string) string {
	return string(fatal.Get(os.ReadFile(filepath.Join(proc.Root(b.t), "envoy", name)))(b.t))
}

// SetModule sets where the filter's code is.
func (b *Bootstrap) SetModule(path string) {
	b.at(b.wasm(), "vm_config/code/local")["filename"] = path
}

// SetAccessLog has the access log go to a file.
func (b *Bootstrap) SetAccessLog(path string) {
	maps.Copy(b.at(b.manager(), "access_log/0/typed_config"), node{
		"@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog", "path": path})
}

// LogMore has the access log state these fields, too.
func (b *Bootstrap) LogMore(fields map[string]any) {
	maps.Copy(b.at(b.manager(), "access_log/0/typed_config/log_format/json_format"), fields)
}

// DropAccessLog leaves no access log: a line per request costs more than a benchmark measures.
func (b *Bootstrap) DropAccessLog() { delete(b.manager(), "access_log") }

// Plugin returns the plugin's JSON, decoded.
func (b *Bootstrap) Plugin() map[string]any {
	text, _ := b.at(b.wasm(), "configuration")["value"].(string)
	fields := map[string]any{}
	fatal.If(b.t, json.Unmarshal([]byte(text), &fields))
	return fields
}

// SetPlugin lays fields over the plugin's JSON.
func (b *Bootstrap) SetPlugin(fields map[string]any) {
	plugin := b.Plugin()
	maps.Copy(plugin, fields)
	b.SetPluginText(b.marshal(plugin))
}

// SetPluginText replaces the plugin's JSON by any text.
func (b *Bootstrap) SetPluginText(text string) {
	b.at(b.wasm(), "configuration")["value"] = text
}

// SetTrustedHops sets how many trusted proxies stand before the PoP.
func (b *Bootstrap) SetTrustedHops(n int) { b.manager()["xff_num_trusted_hops"] = n }

// ListenersFrom has Envoy read its listeners from a file, and again whenever that is
// replaced: see WriteListeners.
func (b *Bootstrap) ListenersFrom(path string) {
	static := b.at(b.tree, "static_resources")
	b.listeners, b.file = node{"listeners": static["listeners"]}, path
	delete(static, "listeners")
	b.dynamic()["lds_config"] = node{
		"resource_api_version": "V3", "path_config_source": node{"path": path}, "initial_fetch_timeout": "10s"}
	b.WriteListeners()
}

// WriteListeners replaces the file of ListenersFrom by what the bootstrap has now.
func (b *Bootstrap) WriteListeners() {
	b.writeResources(b.file, "envoy.config.listener.v3.Listener", b.listeners["listeners"].([]any))
}

// writeResources replaces a file that Envoy reads resources of a type from.
func (b *Bootstrap) writeResources(file, kind string, resources []any) {
	var all []any
	for _, r := range resources {
		typed := node{"@type": "type.googleapis.com/" + kind}
		maps.Copy(typed, r.(node))
		all = append(all, typed)
	}
	next := proc.WriteFile(b.t, file+".next", b.marshal(node{"resources": all}))
	fatal.If(b.t, os.Rename(next, file))
}

// dynamic is what Envoy reads from files.
func (b *Bootstrap) dynamic() node {
	if b.tree["dynamic_resources"] == nil {
		b.tree["dynamic_resources"] = node{}
	}
	return b.at(b.tree, "dynamic_resources")
}

// ClusterFrom has Envoy read a cluster from a file (CDS). The function that it returns removes the cluster from the file,
// or puts it back.
func (b *Bootstrap) ClusterFrom(name, path string) (write func(there bool)) {
	static := b.at(b.tree, "static_resources")
	clusters := static["clusters"].([]any)
	i := overlay.Index(clusters, name)
	cluster := clusters[i]
	static["clusters"] = slices.Delete(clusters, i, i+1)
	b.dynamic()["cds_config"] = node{"resource_api_version": "V3", "path_config_source": node{"path": path}}
	write = func(there bool) {
		b.writeResources(path, "envoy.config.cluster.v3.Cluster", map[bool][]any{true: {cluster}}[there])
	}
	write(true)
	return write
}

// SetMostHeaders lets requests have so many kB of headers, in so many fields.
func (b *Bootstrap) SetMostHeaders(kB, fields int) {
	b.manager()["max_request_headers_kb"] = kB
	b.manager()["common_http_protocol_options"] = node{"max_headers_count": fields}
}

// TrustClients leaves headers in place that the PoP removes, because only something
// that authenticates clients may set them: tests stand in for that.
func (b *Bootstrap) TrustClients() { delete(b.manager(), "early_header_mutation_extensions") }

// wasm returns the filter's plugin configuration.
func (b *Bootstrap) wasm() node { return b.at(b.manager(), "http_filters/weir/typed_config/config") }

// manager returns the HTTP connection manager of the PoP's listener, and host its virtual host.
func (b *Bootstrap) manager() node {
	return b.at(b.listener("pop"), "filter_chains/0/filters/0/typed_config")
}

func (b *Bootstrap) host() node { return b.at(b.manager(), "route_config/virtual_hosts/0") }

func (b *Bootstrap) listener(name string) node { return b.at(b.listeners, "listeners/"+name) }

func (b *Bootstrap) cluster(name string) node { return b.at(b.tree, "static_resources/clusters/"+name) }

// at is the mapping at a path below another one: of fields, and of the names or the numbers of items of lists.
func (b *Bootstrap) at(from node, path string) node {
	b.t.Helper()
	var n any = from
	for _, step := range strings.Split(path, "/") {
		switch of := n.(type) {
		case node:
			n = of[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil {
				i = overlay.Index(of, step)
			}
			if n = nil; i >= 0 && i < len(of) {
				n = of[i]
			}
		}
	}
	found, ok := n.(node)
	if !ok {
		b.t.Fatalf("envoy/pop.yaml: no mapping %q where the tests look for it", path)
	}
	return found
}

func (b *Bootstrap) endpoints(addrs ...string) (all []any) {
	for _, addr := range addrs {
		endpoint := node{"address": node{"socket_address": node{}}}
		b.setAddress(endpoint, addr)
		all = append(all, node{"endpoint": endpoint})
	}
	return all
}

func (b *Bootstrap) setAddress(n node, addr string) {
	host, port, err := net.SplitHostPort(addr)
	fatal.If(b.t, err)
	number := fatal.Get(strconv.Atoi(port))(b.t)
	socket := b.at(n, "address/socket_address")
	socket["address"], socket["port_value"] = host, number
}

// AddRoute puts a route before the others.
func (b *Bootstrap) AddRoute(route map[string]any) {
	b.host()["routes"] = append([]any{route}, b.host()["routes"].([]any)...)
}

// AllowRuntime lets [Envoy.SetRuntime] change settings while the Envoy runs.
func (b *Bootstrap) AllowRuntime() {
	b.tree["layered_runtime"] = node{"layers": []any{node{"name": "admin", "admin_layer": node{}}}}
}

// AddUpgrade lets clients ask for an upgrade: websocket, CONNECT.
func (b *Bootstrap) AddUpgrade(kind string) {
	kinds, _ := b.manager()["upgrade_configs"].([]any)
	b.manager()["upgrade_configs"] = append(kinds, node{"upgrade_type": kind})
}

// Native reports that all Envoys run the native module in the place of the WASM module: WEIR_FILTER=native.
func Native() bool { return os.Getenv("WEIR_FILTER") == "native" }

// SetNative has the filter be the native module, whatever other Envoys run.
func (b *Bootstrap) SetNative() { b.native = true }

func (b *Bootstrap) marshal(v any) string {
	if b.native {
		v = overlay.Native(v)
	}
	return string(fatal.Get(json.MarshalIndent(v, "", "  "))(b.t))
}
