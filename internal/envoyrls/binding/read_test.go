package binding_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/envoyrls/binding"
	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/test/kit/golden"
)

// TestBad holds the message of every mistake to the letter.
func TestBad(t *testing.T) {
	for _, file := range golden.Files(t, "testdata/bad_*.yaml") {
		_, err := binding.Parse(filepath.Base(file), golden.Content(t, file))
		var mistakes strict.Errors
		if !errors.As(err, &mistakes) {
			t.Fatalf("%s: error %v, want mistakes", file, err)
		}
		golden.Same(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
	}
}

// FuzzParse: no file of bindings makes the reader stumble.
func FuzzParse(f *testing.F) {
	f.Add([]byte("bindings:\n  - { domain: d, descriptor: [{ key: user }, { key: plan, value: gold }], rule: per-user }\n"))
	f.Add([]byte("bindings: [{ domain: d, descriptor: [{ key: a, value: b }], rule: c }]"))
	f.Add([]byte("bindings: [{ domain: d, descriptor: [{ key: a }], unbound: true }]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := binding.Parse("f", data)
		if err != nil {
			return
		}
		for b := range s.All() {
			if !s.Domain(b.Domain) || len(b.Entries) == 0 {
				t.Errorf("binding %+v", b)
			}
		}
	})
}
