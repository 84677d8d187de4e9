// Oci puts weir.wasm into an OCI layout, from which it can be pushed to a registry:
//
//	oci bin/weir.wasm bin/weir-wasm.oci
//
// It is an image with one layer that has one file, plugin.wasm: so Istio and Envoy Gateway read a
// filter from a registry. The same filter is the same bytes: nothing in it is a time or a name of
// the machine.
package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "oci:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: oci FILTER DIRECTORY")
	}
	filter, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	image, err := pack(filter)
	if err != nil {
		return err
	}
	if err := write(image, args[1]); err != nil {
		return err
	}
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	fmt.Println(args[1], digest)
	return nil
}

// pack makes an image of the filter.
func pack(filter []byte) (v1.Image, error) {
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "plugin.wasm", Size: int64(len(filter)), Mode: 0o644, Format: tar.FormatUSTAR}); err != nil {
		return nil, err
	}
	if _, err := w.Write(filter); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files.Bytes())), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
	if err != nil {
		return nil, err
	}
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	image, err = mutate.ConfigFile(image, &v1.ConfigFile{OS: "wasip1", Architecture: "wasm", RootFS: v1.RootFS{Type: "layers"}})
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(image, layer)
}

// write replaces a layout by one with this image alone. What is there and is no layout stays.
func write(image v1.Image, dir string) error {
	if _, err := os.Stat(dir); err == nil {
		if _, err := os.Stat(filepath.Join(dir, "oci-layout")); err != nil {
			return fmt.Errorf("%s is there and is no OCI layout", dir)
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	to, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	return to.AppendImage(image, layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "latest"}))
}
