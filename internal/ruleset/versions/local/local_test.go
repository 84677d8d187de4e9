package local

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/consul"
)

// The file outlives the process, and one at a time has it.
func TestOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "rules.db")
	first, second := New(path), New(path)
	if err := first.Put(t.Context(), "a", []byte("1")); err != nil {
		t.Fatal(err)
	}
	before, err := first.Get(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	_, readErr := second.Get(t.Context(), "a")
	_, writeErr := second.Commit(t.Context(), consul.Change{Delete: []string{"a"}})
	for _, err := range []error{readErr, writeErr} {
		if err == nil || !strings.Contains(err.Error(), path+" is in use by another process") || !strings.Contains(err.Error(), "one replica") {
			t.Errorf("%v", err)
		}
	}
	if err := errors.Join(first.Close(), first.Close()); err != nil {
		t.Fatal(err)
	}
	if after, err := second.Get(t.Context(), "a"); err != nil || string(after.Value) != "1" || after.Index != before.Index {
		t.Errorf("%+v after %+v (%v)", after, before, err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// A file that is none of these, and a directory that cannot be made, are errors that name it.
func TestBadFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rules.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("rules: []\n", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, filepath.Join(path, "below", "rules.db"), dir} {
		if _, err := New(path).Get(t.Context(), "a"); err == nil || strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if text, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(text), "rules: []") {
		t.Errorf("it was changed: %.20q (%v)", text, err)
	}
}

// A file of which a part was overwritten is an error of each call, and not the end of the process.
func TestDamagedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rules.db")
	kv := New(path)
	for i := range 200 {
		if err := kv.Put(t.Context(), fmt.Sprintf("a/%03d", i), bytes.Repeat([]byte{byte(i)}, 100)); err != nil {
			t.Fatal(err)
		}
	}
	if err := kv.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wrong := 0
	for at := 0; at < len(whole); at += os.Getpagesize() {
		text := slices.Clone(whole)
		copy(text[at:], bytes.Repeat([]byte{0xff}, 64))
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		kv := New(path)
		pairs, err := kv.List(t.Context(), "a/")
		if err != nil {
			wrong++
		} else if len(pairs) < 199 { // with the newest head gone there is the state before the last change
			t.Errorf("%d keys with the page at %d overwritten", len(pairs), at)
		}
		_, _ = kv.Commit(t.Context(), consul.Change{Set: []consul.Pair{{Key: "a/000", Value: []byte("1")}}})
		_ = kv.Close()
	}
	if wrong == 0 {
		t.Error("no page is needed")
	}
}

// A file that is cut off, before it is opened or while it is open, is an error of each call that says so, and not the end of
// the process.
func TestCutFile(t *testing.T) {
	for _, open := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "rules.db")
		kv := New(path)
		for i := range 200 {
			if err := kv.Put(t.Context(), fmt.Sprintf("a/%03d", i), bytes.Repeat([]byte{byte(i)}, 3000)); err != nil {
				t.Fatal(err)
			}
		}
		if !open {
			if err := kv.Close(); err != nil {
				t.Fatal(err)
			}
			kv = New(path)
		}
		if err := os.Truncate(path, 4*int64(os.Getpagesize())); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_, readErr := kv.List(t.Context(), "a/")
			_, writeErr := kv.Commit(t.Context(), consul.Change{Set: []consul.Pair{{Key: "a/000", Value: []byte("1")}}})
			for _, err := range []error{readErr, writeErr} {
				if err == nil || !strings.Contains(err.Error(), path+" is damaged") {
					t.Errorf("open: %v: %v", open, err)
				}
			}
		}
		if err := kv.Close(); err != nil {
			t.Error(err)
		}
	}
}
