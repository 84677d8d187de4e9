package descriptor

import (
	"math"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/rule/strict"
	"go.yaml.in/yaml/v3"
)

// metadata reads a mapping of any content that a Struct of protobuf can hold.
func (r *reader) metadata(f field, path string) map[string]any {
	n := resolve(f.value)
	switch {
	case isNull(n):
		return nil
	case n.Kind != yaml.MappingNode:
		r.fail(posOf(f.value), path, "is "+describe(n)+"; write a mapping")
		return nil
	}
	m := r.mapping(n, path, 1)
	if len(m) == 0 {
		return nil
	}
	return m
}

func (r *reader) mapping(n *yamlNode, path string, depth int) map[string]any {
	m := make(map[string]any, len(n.Content)/2)
	for _, p := range r.pairs(n, path, 0) {
		if p.key.Kind != yaml.ScalarNode {
			r.fail(posOf(p.key), path, "has a field whose name is "+describe(p.key)+"; write a text")
			continue
		}
		m[p.key.Value] = r.anything(p.value, strict.Join(path, p.key.Value), depth+1)
	}
	return m
}

// anything reads a value of metadata.
func (r *reader) anything(value *yamlNode, path string, depth int) any {
	n := resolve(value)
	switch {
	case !r.take(value, path):
		return nil
	case depth > maxDepth:
		r.fail(posOf(value), path, "is nested more than "+strconv.Itoa(maxDepth)+" levels deep; write fewer levels")
		return nil
	case n.Kind == yaml.MappingNode:
		return r.mapping(n, path, depth)
	case n.Kind == yaml.SequenceNode:
		items := make([]any, len(n.Content))
		for i, item := range n.Content {
			items[i] = r.anything(item, strict.Index(path, i), depth+1)
		}
		return items
	}
	return r.scalar(value, n, path)
}

func (r *reader) scalar(at, n *yamlNode, path string) any {
	if value, ok := truth(n); ok {
		return value
	}
	switch n.ShortTag() {
	case "!!null":
		return nil
	case "!!str", "!!timestamp", "!!merge":
		return n.Value
	case "!!int", "!!float":
		if number, ok := float(n); ok {
			return number
		}
	}
	r.fail(posOf(at), path, "is "+describeType(n)+"; write a text, a finite number, true, false, null, a list or a mapping")
	return nil
}

// float reads a number as the nearest float64.
func float(n *yamlNode) (float64, bool) {
	if digits, ok := integer(n); ok {
		if i, err := strconv.ParseInt(digits, 0, 64); err == nil {
			return float64(i), true
		}
		if i, err := strconv.ParseUint(strings.TrimPrefix(digits, "+"), 0, 64); err == nil {
			return float64(i), true
		}
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(n.Value, "_", ""), 64)
	return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
}
