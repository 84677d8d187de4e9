//go:build linux

package rig

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

const shipped = "../../../envoy/pop.yaml"

// edited is the shipped bootstrap after some edits, as Envoy would read it.
func edited(t *testing.T, edits ...func(*bootstrap)) object {
	t.Helper()
	b, err := readBootstrap(shipped)
	if err != nil {
		t.Fatal(err)
	}
	for _, edit := range edits {
		edit(b)
	}
	text, err := b.json()
	if err != nil {
		t.Fatal(err)
	}
	var tree object
	if err := json.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// place does to every bootstrap what start does.
func place(b *bootstrap) {
	b.setAdmin("127.0.0.1:21001")
	b.onlyListener("pop", "127.0.0.1:21002")
	b.dropAccessLog()
	b.trustClients()
	b.setCluster("upstream", "127.0.0.1:21003")
}

func TestBootstrapsDifferByTheirFilterAlone(t *testing.T) {
	manager := func(tree object) object {
		b := &bootstrap{tree: tree}
		return b.manager()
	}
	weir := edited(t, place, func(b *bootstrap) { b.setPlugin("/x/weir.wasm", object{"pop": "p"}) })
	bare := edited(t, place, func(b *bootstrap) { b.setFilter(nil) })
	other := edited(t, place, func(b *bootstrap) { b.setFilter(object{"name": "other"}) })

	filters := func(tree object) []any { return manager(tree)["http_filters"].([]any) }
	if n := len(filters(bare)); n != len(filters(weir))-1 {
		t.Errorf("bare has %d filters, Weir %d: want one less", n, len(filters(weir)))
	}
	if first := filters(other)[0].(object)["name"]; first != "other" {
		t.Errorf("the first filter is %v, want the one that was put there", first)
	}
	delete(manager(bare), "http_filters")
	for _, tree := range []object{weir, other} {
		delete(manager(tree), "http_filters")
		if !reflect.DeepEqual(tree, bare) {
			t.Error("the bootstraps differ beyond their filters")
		}
	}
}

func TestBootstrapIsWhereItWasPut(t *testing.T) {
	text, err := json.Marshal(edited(t, place, func(b *bootstrap) {
		b.setPlugin("/x/weir.wasm", object{"pop": "bench-pop"})
		b.setCluster("weir_region", "127.0.0.1:21004")
	}))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"port_value":21001`, `"port_value":21002`, `"port_value":21003`, `"port_value":21004`,
		`/x/weir.wasm`, `bench-pop`, `before_rules`, // the last one is the shipped file's own
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in the bootstrap", want)
		}
	}
	for _, not := range []string{"access_log", "demo_upstream", `"port_value":9901`, `"port_value":10000`} {
		if strings.Contains(string(text), not) {
			t.Errorf("%s is still in the bootstrap", not)
		}
	}
}

func TestBootstrapThatLacksWhatIsEdited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pop.yaml")
	if err := os.WriteFile(path, []byte("admin: { address: 7 }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, edit := range map[string]func(*bootstrap){
		"admin":    func(b *bootstrap) { b.setAdmin("127.0.0.1:1") },
		"listener": func(b *bootstrap) { b.onlyListener("pop", "127.0.0.1:1") },
		"cluster":  func(b *bootstrap) { b.setCluster("upstream", "127.0.0.1:1") },
		"plugin":   func(b *bootstrap) { b.setPlugin("x", nil) },
		"filter":   func(b *bootstrap) { b.setFilter(nil) },
	} {
		b, err := readBootstrap(path)
		if err != nil {
			t.Fatal(err)
		}
		edit(b)
		if text, err := b.json(); err == nil {
			t.Errorf("%s: want an error, have %s", name, text)
		}
	}
}
