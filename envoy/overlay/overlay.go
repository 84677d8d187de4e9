// Package overlay makes the bootstraps of PoPs out of what is in envoy/: pop.yaml is below, and files
// that have only what differs, such as consul.yaml, are laid over it.
package overlay

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Node is a mapping of a YAML tree.
type Node = map[string]any

// Parse reads the text of a file; name is for what is wrong with it.
func Parse(name, text string) (tree Node, err error) {
	if err := yaml.Unmarshal([]byte(text), &tree); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return tree, nil
}

// Lay returns what is below with what is over it, and may change below. Mappings are merged, and so are
// lists whose items all have names, by these; all else is replaced. An item that is new comes before the
// next one of over that was there, and behind all others if none was.
func Lay(below, over any) any {
	switch over := over.(type) {
	case Node:
		if below, ok := below.(Node); ok {
			for key, value := range over {
				below[key] = Lay(below[key], value)
			}
			return below
		}
	case []any:
		if below, ok := below.([]any); ok && haveNames(below) && haveNames(over) {
			return layList(below, over)
		}
	}
	return over
}

func layList(below, over []any) []any {
	next := len(below)
	for _, item := range slices.Backward(over) {
		if i := Index(below, item.(Node)["name"]); i >= 0 {
			below[i], next = Lay(below[i], item), i
		} else {
			below = slices.Insert(below, next, item)
		}
	}
	return below
}

func haveNames(list []any) bool {
	return !slices.ContainsFunc(list, func(item any) bool {
		n, ok := item.(Node)
		return !ok || n["name"] == nil
	})
}

// Index is where a list of mappings has the one with a name; -1: nowhere.
func Index(list []any, name any) int {
	return slices.IndexFunc(list, func(item any) bool { return item.(Node)["name"] == name })
}

// The types of the filter: as a WASM module, and as a library.
const (
	wasmFilter   = "type.googleapis.com/envoy.extensions.filters.http.wasm.v3.Wasm"
	nativeFilter = "type.googleapis.com/envoy.extensions.filters.http.dynamic_modules.v3.DynamicModuleFilter"
)

// customStats is the setting of the runtime by which Prometheus gets the names of the filter's metrics without a prefix.
const customStats = "envoy.reloadable_features.dynamic_modules_strip_custom_stat_prefix"

// NativeBootstrap is Native for a whole bootstrap.
func NativeBootstrap(tree Node) Node {
	tree = Native(tree).(Node)
	runtime, _ := tree["layered_runtime"].(Node)
	layers, _ := runtime["layers"].([]any)
	tree["layered_runtime"] = Node{"layers": append([]any{Node{"name": "weir", "static_layer": Node{customStats: true}}}, layers...)}
	return tree
}

// Native returns a tree in which each WASM filter is the native module instead: bin/weir.so for bin/weir.wasm, with the same
// name and the same configuration. It leaves the tree as it is.
func Native(tree any) any {
	switch tree := tree.(type) {
	case Node:
		if tree["@type"] == wasmFilter {
			return nativeOf(tree)
		}
		copied := Node{}
		for key, value := range tree {
			copied[key] = Native(value)
		}
		return copied
	case []any:
		copied := make([]any, len(tree))
		for i, value := range tree {
			copied[i] = Native(value)
		}
		return copied
	case string:
		if tree == wasmFilter {
			return nativeFilter
		}
	}
	return tree
}

func nativeOf(filter Node) Node {
	at := func(n Node, path ...string) Node {
		for _, step := range path {
			n, _ = n[step].(Node)
		}
		return n
	}
	config := at(filter, "config")
	file, _ := at(config, "vm_config", "code", "local")["filename"].(string)
	return Node{
		"@type": nativeFilter,
		"dynamic_module_config": Node{
			"module":       Node{"local": Node{"filename": strings.TrimSuffix(file, ".wasm") + ".so"}},
			"do_not_close": true,
			// Statistics have the names that they have with the WASM module.
			"metrics_namespace": "wasmcustom",
		},
		"filter_name":   config["name"],
		"filter_config": config["configuration"],
	}
}
