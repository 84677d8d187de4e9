package local

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/consul"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// The file outlives the process, and one at a time has it.
func TestOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "rules.store")
	first, second := New(path), New(path)
	fatal.If(t, first.Put(t.Context(), "a", []byte("1")))
	before := fatal.Get(first.Get(t.Context(), "a"))(t)
	_, readErr := second.Get(t.Context(), "a")
	_, writeErr := second.Commit(t.Context(), consul.Change{Delete: []string{"a"}})
	for _, err := range []error{readErr, writeErr} {
		if err == nil || !strings.Contains(err.Error(), path+"/store is in use by process") || !strings.Contains(err.Error(), "one replica") {
			t.Errorf("%v", err)
		}
	}
	fatal.If(t, errors.Join(first.Close(), first.Close()))
	if after, err := second.Get(t.Context(), "a"); err != nil || string(after.Value) != "1" || after.Index != before.Index {
		t.Errorf("%+v after %+v (%v)", after, before, err)
	}
	fatal.If(t, second.Close())
}

// A directory that cannot be made is an error that names it.
func TestBadDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	fatal.If(t, os.WriteFile(path, nil, 0o600))
	for _, path := range []string{path, filepath.Join(path, "below")} {
		if _, err := New(path).Get(t.Context(), "a"); err == nil || strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), "/file: not a directory") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// Of a change that does not come to its end the first key, which is what others depend on, is as it was.
func TestHalfDone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	kv := New(dir)
	fatal.If(t, kv.Put(t.Context(), "manifest", []byte("1")))
	fatal.If(t, os.Mkdir(kv.file("broken"), 0o700)) // no file takes its place
	done, err := kv.Commit(t.Context(), consul.Change{Set: []consul.Pair{{Key: "manifest", Value: []byte("2")}, {Key: "broken", Value: []byte("2")}}})
	if p, _ := kv.Get(t.Context(), "manifest"); done || err == nil || string(p.Value) != "1" {
		t.Errorf("%v, %v: %s", done, err, p.Value)
	}
	keys, err := kv.Keys(t.Context(), "")
	if want := []string{"broken", "manifest", "store.lock"}; err != nil || !slices.Equal(keys, want) {
		t.Errorf("%q (%v) is left, want %q", keys, err, want)
	}
	if _, err := kv.Get(t.Context(), "broken"); err == nil {
		t.Error("a directory is read")
	}
}
