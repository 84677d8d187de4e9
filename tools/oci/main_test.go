package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// filter is what the tests pack.
var filter = []byte("\x00asm\x01\x00\x00\x00 and so on")

// A registry takes the layout, and gives back what those who run filters read: one layer of the
// type that they ask for, with plugin.wasm and nothing else.
func TestPushAndPull(t *testing.T) {
	_, image := packed(t)
	server := httptest.NewServer(registry.New())
	defer server.Close()
	ref, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/weir:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, image); err != nil {
		t.Fatal(err)
	}
	pulled, err := remote.Image(ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(pulled); err != nil {
		t.Error(err)
	}
	layers, err := pulled.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	if kind, err := layers[0].MediaType(); err != nil || kind != types.OCILayer {
		t.Errorf("the layer has type %q, %v", kind, err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	files := tar.NewReader(content)
	header, err := files.Next()
	if err != nil || header.Name != "plugin.wasm" {
		t.Fatalf("the first file is %v, %v", header, err)
	}
	if got, err := io.ReadAll(files); err != nil || !bytes.Equal(got, filter) {
		t.Errorf("plugin.wasm is %q, %v", got, err)
	}
	if _, err := files.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("there is a second file, %v", err)
	}
}

// The same filter is the same files, also over a layout of another one.
func TestSameBytes(t *testing.T) {
	first, _ := packed(t)
	second := filepath.Join(t.TempDir(), "layout")
	for _, content := range [][]byte{[]byte("another"), filter} {
		if err := run([]string{file(t, content), second}); err != nil {
			t.Fatal(err)
		}
	}
	if a, b := contents(t, first), contents(t, second); a != b {
		t.Errorf("two layouts of one filter differ:\n%s\n%s", a, b)
	}
}

// A directory that is no layout is not removed.
func TestOtherDirectory(t *testing.T) {
	dir := t.TempDir()
	kept := filepath.Join(dir, "kept")
	if err := os.WriteFile(kept, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run([]string{file(t, filter), dir}); err == nil {
		t.Error("it was taken for a layout")
	}
	if _, err := os.Stat(kept); err != nil {
		t.Error(err)
	}
}

func file(t *testing.T, content []byte) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "weir.wasm")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// packed is a layout of the filter, and the one image in it.
func packed(t *testing.T) (dir string, image v1.Image) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "layout")
	if err := run([]string{file(t, filter), dir}); err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil || len(manifest.Manifests) != 1 {
		t.Fatalf("%v, %v", manifest, err)
	}
	image, err = index.Image(manifest.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	return dir, image
}

// contents are the names and contents of all files of a directory.
func contents(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		all.WriteString(strings.TrimPrefix(path, dir) + "\n" + string(content) + "\n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
