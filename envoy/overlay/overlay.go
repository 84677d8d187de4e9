// Package overlay makes the bootstraps of PoPs out of what is in envoy/: pop.yaml is below, and files
// that have only what differs, such as consul.yaml, are laid over it.
package overlay

import (
	"fmt"
	"slices"

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
