package main

import (
	"os"
	"reflect"
	"testing"
)

// The generated bootstrap is that of the files in envoy/.
func TestGenerated(t *testing.T) {
	want, err := render("../..")
	if err != nil {
		t.Fatal(err)
	}
	if have, err := os.ReadFile("../pop.yaml"); err != nil || string(have) != string(want) {
		t.Errorf("compose/pop.yaml is out of date, run go generate ./compose/pop (%v)", err)
	}
}

func TestLay(t *testing.T) {
	below := node{"a": 1, "list": []any{node{"name": "x", "v": 1}, node{"name": "y", "v": 1}}, "plain": []any{1, 2}, "deep": node{"b": 1}}
	over := node{"list": []any{node{"name": "y", "w": 2}, node{"name": "z"}}, "plain": []any{3}, "deep": node{"c": 2}}
	want := node{
		"a": 1, "plain": []any{3}, "deep": node{"b": 1, "c": 2},
		"list": []any{node{"name": "x", "v": 1}, node{"name": "y", "v": 1, "w": 2}, node{"name": "z"}},
	}
	if got := lay(below, over); !reflect.DeepEqual(got, any(want)) {
		t.Errorf("%v, want %v", got, want)
	}
}
