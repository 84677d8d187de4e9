package envoy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/proc"
)

// edited is the shipped bootstrap after some edits, as Envoy would read it.
func edited(t *testing.T, edits ...func(*Bootstrap)) node {
	t.Helper()
	b := ReadBootstrap(t)
	for _, edit := range edits {
		edit(b)
	}
	var tree node
	if err := json.Unmarshal([]byte(b.JSON()), &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// place does to every bootstrap what a benchmark does.
func place(b *Bootstrap) {
	b.SetAdmin("127.0.0.1:21001")
	b.SetListener("pop", "127.0.0.1:21002")
	b.OnlyListener("pop")
	b.DropAccessLog()
	b.TrustClients()
	b.SetCluster("upstream", "127.0.0.1:21003")
}

func TestBootstrapsDifferByTheirFilterAlone(t *testing.T) {
	manager := func(tree node) node {
		b := &Bootstrap{t: t, tree: tree}
		return b.manager()
	}
	weir := edited(t, place, func(b *Bootstrap) { b.SetModule("/x/weir.wasm"); b.SetPlugin(node{"pop": "p"}) })
	bare := edited(t, place, func(b *Bootstrap) { b.SetFilter(nil) })
	other := edited(t, place, func(b *Bootstrap) { b.SetFilter(node{"name": "other"}) })

	filters := func(tree node) []any { return manager(tree)["http_filters"].([]any) }
	if n := len(filters(bare)); n != len(filters(weir))-1 {
		t.Errorf("bare has %d filters, Weir %d: want one less", n, len(filters(weir)))
	}
	if first := filters(other)[0].(node)["name"]; first != "other" {
		t.Errorf("the first filter is %v, want the one that was put there", first)
	}
	delete(manager(bare), "http_filters")
	for _, tree := range []node{weir, other} {
		delete(manager(tree), "http_filters")
		if !reflect.DeepEqual(tree, bare) {
			t.Error("the bootstraps differ beyond their filters")
		}
	}
}

func TestBootstrapIsWhereItWasPut(t *testing.T) {
	text, err := json.Marshal(edited(t, place, func(b *Bootstrap) {
		b.SetModule("/x/weir.wasm")
		b.SetPlugin(node{"pop": "bench-pop"})
		b.SetCluster("weir_region", "127.0.0.1:21004")
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
	for name, edit := range map[string]func(*Bootstrap){
		"admin":    func(b *Bootstrap) { b.SetAdmin("127.0.0.1:1") },
		"listener": func(b *Bootstrap) { b.OnlyListener("pop") },
		"address":  func(b *Bootstrap) { b.SetListener("pop", "127.0.0.1:1") },
		"cluster":  func(b *Bootstrap) { b.SetCluster("upstream", "127.0.0.1:1") },
		"module":   func(b *Bootstrap) { b.SetModule("x") },
		"plugin":   func(b *Bootstrap) { b.SetPlugin(nil) },
		"filter":   func(b *Bootstrap) { b.SetFilter(nil) },
	} {
		err := func() (err error) {
			defer proc.Recover(&err)
			edit(readBootstrap(&proc.Program{Ctx: t.Context()}, path))
			return nil
		}()
		if err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
}
