package rulefile_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/golden"
)

// FuzzMerge: no two files make the reader of a directory fail otherwise than by mistakes that name a file, and the text
// and the compiled form of what it takes mean the same.
func FuzzMerge(f *testing.F) {
	good, bad := golden.Content(f, "testdata/good_full.yaml"), golden.Content(f, "testdata/bad_all_at_once.yaml")
	for _, pair := range [][2][]byte{{good, []byte(search)}, {bad, []byte(login)}, {[]byte(login), []byte(login)}, {[]byte("rules: ["), bad}} {
		f.Add(pair[0], pair[1])
	}
	for _, file := range golden.Files(f, "testdata/bad_*.yaml") {
		f.Add(golden.Content(f, file), []byte(login))
	}
	for _, file := range append(golden.Files(f, "testdata/good_*.yaml"), golden.Files(f, "testdata/good_*.json")...) {
		f.Add(golden.Content(f, file), []byte(`rules: [{ name: zz, key: [{ const: "a\u2028b\x7f\"\\é" }, { const: "null" }, { const: "1" }, { const: on }], limit: 1/1m }]`))
	}
	f.Add([]byte(login), []byte("seed: 1\nrules: [{ name: own, mode: exempt }, { name: x, key: [], limits: [1/1m, 2/1h] }]\n"))
	f.Add([]byte("owners: { b.yaml: { prefix: l, rules: 1 } }"), []byte(login))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		name := "d/a.yaml"
		if bytes.HasPrefix(a, []byte("owners:")) {
			name = "d/owners.yaml"
		}
		d, err := rulefile.Merge("d", []rulefile.File{{Name: name, Data: a}, {Name: "d/b.yaml", Data: b}})
		if err != nil {
			var mistakes strict.Errors
			if d != nil || !errors.As(err, &mistakes) || len(mistakes) == 0 {
				t.Fatalf("document %v with error %#v", d, err)
			}
			for _, m := range mistakes {
				if m.Reason == "" || m.File != "d" && m.File != name && m.File != "d/b.yaml" {
					t.Errorf("%#v", m)
				}
			}
			return
		}
		again, err := rulefile.Parse("text", d.Text)
		if err != nil {
			t.Fatalf("the text %s is rejected: %v", d.Text, err)
		}
		compiled, err := read.JSON(d.Set.Encode())
		if err != nil || again.Version != d.Set.Version || compiled.Version != d.Set.Version {
			t.Errorf("the text %s becomes %s; compiled form %s (%v)", d.Text, again.Encode(), d.Set.Encode(), err)
		}
	})
}
