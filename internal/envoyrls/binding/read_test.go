package binding_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/envoyrls/binding"
	"github.com/weirlimit/weir/internal/rule/strict"
)

var update = flag.Bool("update", false, "write the golden files; commit a difference only if you can explain it")

// TestBad holds the message of every mistake to the letter.
func TestBad(t *testing.T) {
	files, err := filepath.Glob("testdata/bad_*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files (%v)", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, err = binding.Parse(filepath.Base(file), data)
		var mistakes strict.Errors
		if !errors.As(err, &mistakes) {
			t.Errorf("%s: error %v, want mistakes", file, err)
			continue
		}
		golden := strings.TrimSuffix(file, ".yaml") + ".txt"
		if *update {
			if err := os.WriteFile(golden, []byte(err.Error()+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, _ := os.ReadFile(golden); string(want) != err.Error()+"\n" {
			t.Errorf("%s: got\n%v\nwant\n%s", file, err, want)
		}
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
