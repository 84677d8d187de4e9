package overlay

import (
	"reflect"
	"testing"
)

func TestLay(t *testing.T) {
	for what, c := range map[string]struct{ below, over, want any }{
		"mappings are merged":                {Node{"a": 1, "b": Node{"c": 1}}, Node{"b": Node{"d": 2}}, Node{"a": 1, "b": Node{"c": 1, "d": 2}}},
		"values are replaced":                {Node{"a": 1, "b": 1}, Node{"b": 2}, Node{"a": 1, "b": 2}},
		"a list without names is replaced":   {[]any{1, 2}, []any{3}, []any{3}},
		"a list with names is merged":        {named("x", "y"), []any{Node{"name": "y", "v": 1}}, []any{Node{"name": "x"}, Node{"name": "y", "v": 1}}},
		"a new item is the last":             {named("x", "y"), named("z"), named("x", "y", "z")},
		"or before the one that follows it":  {named("x", "y"), named("a", "b", "y", "z"), named("x", "a", "b", "y", "z")},
		"a mapping in the place of a number": {Node{"a": 1}, Node{"a": Node{"b": 2}}, Node{"a": Node{"b": 2}}},
	} {
		if got := Lay(c.below, c.over); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
}

func named(names ...string) (list []any) {
	for _, name := range names {
		list = append(list, Node{"name": name})
	}
	return list
}

func TestParseNamesTheFile(t *testing.T) {
	if _, err := Parse("envoy/consul.yaml", "a: ["); err == nil || err.Error()[:18] != "envoy/consul.yaml:" {
		t.Errorf("%v", err)
	}
}
