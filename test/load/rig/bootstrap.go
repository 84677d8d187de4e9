//go:build linux

package rig

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// bootstrap is envoy/pop.yaml as a tree. Its methods edit it; the first thing
// that the file does not have where they look for it stays in err.
type bootstrap struct {
	tree object
	err  error
}

type object = map[string]any

func readBootstrap(path string) (*bootstrap, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	b := &bootstrap{}
	if err := yaml.Unmarshal(text, &b.tree); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// json is the bootstrap as Envoy reads it from a .json file.
func (b *bootstrap) json() (string, error) {
	if b.err != nil {
		return "", fmt.Errorf("envoy/pop.yaml: %w", b.err)
	}
	text, err := json.MarshalIndent(b.tree, "", "  ")
	return string(text), err
}

func (b *bootstrap) setAdmin(addr string) { b.setAddress(b.child(b.tree, "admin"), addr) }

// onlyListener drops every listener but this one, and moves that.
func (b *bootstrap) onlyListener(name, addr string) {
	listener := b.named("listeners", name)
	b.setAddress(listener, addr)
	b.child(b.tree, "static_resources")["listeners"] = []any{listener}
}

func (b *bootstrap) setCluster(name, addr string) {
	locality := b.first(b.child(b.named("clusters", name), "load_assignment"), "endpoints")
	b.setAddress(b.child(b.first(locality, "lb_endpoints"), "endpoint"), addr)
}

// dropAccessLog: writing a line per request costs more than what is measured.
func (b *bootstrap) dropAccessLog() { delete(b.manager(), "access_log") }

// trustClients leaves the key of a request, x-user-id, in place: the driver stands in
// for what authenticates clients.
func (b *bootstrap) trustClients() { delete(b.manager(), "early_header_mutation_extensions") }

// setFilter puts f in the place of the filter named weir; nil leaves the place
// empty.
func (b *bootstrap) setFilter(f object) {
	var chain []any
	for _, filter := range b.list(b.manager(), "http_filters") {
		switch {
		case filter["name"] != "weir":
			chain = append(chain, filter)
		case f != nil:
			chain = append(chain, f)
		}
	}
	b.manager()["http_filters"] = chain
}

// setPlugin names the filter's code and lays fields over its JSON.
func (b *bootstrap) setPlugin(module string, fields object) {
	for _, filter := range b.list(b.manager(), "http_filters") {
		if filter["name"] != "weir" {
			continue
		}
		config := b.child(b.child(filter, "typed_config"), "config")
		b.child(b.child(b.child(config, "vm_config"), "code"), "local")["filename"] = module
		value := b.child(config, "configuration")
		plugin := object{}
		text, _ := value["value"].(string)
		if err := json.Unmarshal([]byte(text), &plugin); err != nil {
			b.fail("plugin configuration: %w", err)
		}
		maps.Copy(plugin, fields)
		merged, err := json.Marshal(plugin)
		if err != nil {
			b.fail("plugin configuration: %w", err)
		}
		value["value"] = string(merged)
		return
	}
	b.fail("no HTTP filter named weir")
}

// manager is the HTTP connection manager of the first listener.
func (b *bootstrap) manager() object {
	listener := b.first(b.child(b.tree, "static_resources"), "listeners")
	return b.child(b.first(b.first(listener, "filter_chains"), "filters"), "typed_config")
}

func (b *bootstrap) named(kind, name string) object {
	for _, o := range b.list(b.child(b.tree, "static_resources"), kind) {
		if o["name"] == name {
			return o
		}
	}
	b.fail("static_resources.%s: none is named %s", kind, name)
	return object{}
}

func (b *bootstrap) setAddress(o object, addr string) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		b.fail("%w", err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		b.fail("%w", err)
	}
	socket := b.child(b.child(o, "address"), "socket_address")
	socket["address"], socket["port_value"] = host, number
}

func (b *bootstrap) child(o object, key string) object {
	c, ok := o[key].(object)
	if !ok {
		b.fail("no mapping %q where the benchmark looks for it", key)
		return object{}
	}
	return c
}

func (b *bootstrap) first(o object, key string) object {
	if items := b.list(o, key); len(items) > 0 {
		return items[0]
	}
	b.fail("no list %q where the benchmark looks for it", key)
	return object{}
}

func (b *bootstrap) list(o object, key string) []object {
	var objects []object
	items, _ := o[key].([]any)
	for _, item := range items {
		if o, ok := item.(object); ok {
			objects = append(objects, o)
		}
	}
	return objects
}

func (b *bootstrap) fail(format string, args ...any) {
	if b.err == nil {
		b.err = fmt.Errorf(format, args...)
	}
}
