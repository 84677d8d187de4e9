package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	layers "github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const (
	user    = 65532
	userIDs = "65532:65532"
	// state is the working directory of the programs, which they may write to.
	state = "/var/lib/weir"

	titleLabel   = "org.opencontainers.image.title"
	aboutLabel   = "org.opencontainers.image.description"
	refLabel     = "org.opencontainers.image.ref.name"
	layoutEnding = "_oci.tar"
)

// content is what an image has, as the stages of the Dockerfile have it.
type content struct {
	about    string
	programs []string // the first of them is started
	ports    []string
	volume   bool // the working directory is kept
}

var contents = map[string]content{
	"weir-regional": {"The region of Weir: grants leases on rate limits to the Envoys of a region", []string{"weir-regional", "weir"}, []string{"8080", "8081", "8090"}, true},
	"weir-global":   {"The aggregator of Weir: counts limits that regions share", []string{"weir-global", "weir"}, []string{"8080", "8090"}, true},
	"weir":          {"The command line of Weir, and its Envoy filter: weir admin export-filter FILE writes it", []string{"weir", filter, native}, nil, false},
}

// artifact is the image with the filter alone.
const artifact = "weir-filter"

// images writes an OCI layout for each image, as one tar, and notes the digests by which a registry will know them.
func (r *release) images(built, dir string, digests map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		index := mutate.Annotations(mutate.IndexMediaType(empty.Index, types.OCIImageIndex), r.labels(name, contents[name].about)).(v1.ImageIndex)
		for _, p := range platforms {
			if p.os != "linux" {
				continue
			}
			image, err := r.image(built, name, p)
			if err != nil {
				return err
			}
			index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.os, Architecture: p.arch}}})
		}
		if err := r.layout(dir, name, index, digests); err != nil {
			return err
		}
	}
	image, err := r.artifact(built)
	if err != nil {
		return err
	}
	return r.layout(dir, artifact, image, digests)
}

// labels are those of OCI.
func (r *release) labels(title, about string) map[string]string {
	return map[string]string{
		titleLabel: title, aboutLabel: about,
		"org.opencontainers.image.version": r.version, "org.opencontainers.image.revision": r.commit,
		"org.opencontainers.image.created": r.time.Format(time.RFC3339), "org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.source":        repository,
		"org.opencontainers.image.documentation": repository + "/blob/v" + r.version + "/docs/install.md",
	}
}

// image is that of one architecture. Each program is a layer of its own, so that images share them.
func (r *release) image(built, name string, p platform) (v1.Image, error) {
	c := contents[name]
	config := v1.Config{
		User: userIDs, WorkingDir: state, Entrypoint: []string{"/" + c.programs[0]}, Labels: r.labels(name, c.about), ExposedPorts: map[string]struct{}{},
	}
	for _, port := range c.ports {
		config.ExposedPorts[port+"/tcp"] = struct{}{}
	}
	if c.volume {
		config.Volumes = map[string]struct{}{state: {}}
	}
	parts := [][]entry{{{name: "var/"}, {name: "var/lib/"}, {name: state[1:] + "/", owner: user}}}
	for _, program := range c.programs {
		from := p
		if program == filter {
			from = wasm
		}
		e, err := file(filepath.Join(built, from.String(), program), program)
		if err != nil {
			return nil, err
		}
		parts = append(parts, []entry{e})
	}
	return r.assemble(&v1.ConfigFile{OS: p.os, Architecture: p.arch, Config: config}, parts)
}

// artifact is an image as Istio and Envoy Gateway read a filter: one layer with one file, plugin.wasm.
func (r *release) artifact(built string) (v1.Image, error) {
	module, err := file(filepath.Join(built, wasm.String(), filter), "plugin.wasm")
	if err != nil {
		return nil, err
	}
	image, err := r.assemble(&v1.ConfigFile{OS: "wasip1", Architecture: "wasm"}, [][]entry{{module}})
	if err != nil {
		return nil, err
	}
	return mutate.Annotations(image, r.labels(artifact, "The Envoy filter of Weir")).(v1.Image), nil
}

// assemble makes an image of layers.
func (r *release) assemble(config *v1.ConfigFile, parts [][]entry) (v1.Image, error) {
	config.Created, config.RootFS = v1.Time{Time: r.time}, v1.RootFS{Type: "layers"}
	image, err := mutate.ConfigFile(mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON), config)
	for _, part := range parts {
		if err != nil {
			return nil, err
		}
		var archive []byte
		if archive, err = tarball(part, r.time); err != nil {
			return nil, err
		}
		var layer v1.Layer
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil }
		if layer, err = layers.LayerFromOpener(open, layers.WithMediaType(types.OCILayer)); err != nil {
			return nil, err
		}
		image, err = mutate.Append(image, mutate.Addendum{Layer: layer, History: v1.History{Created: config.Created, CreatedBy: "make release"}})
	}
	return image, err
}

// layout writes a layout with one image, for one architecture or several, as a tar, and notes its digest.
func (r *release) layout(dir, name string, image mutate.Appendable, digests map[string]string) (err error) {
	digest, err := image.Digest()
	if err != nil {
		return err
	}
	digests[name+":"+r.version] = digest.Hex
	at, err := os.MkdirTemp("", "weir-layout-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(at)) }()
	top := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{Annotations: map[string]string{refLabel: r.version}}})
	if _, err := layout.Write(at, top); err != nil {
		return err
	}
	var entries []entry
	if err := fs.WalkDir(os.DirFS(at), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(filepath.Join(at, name))
		entries = append(entries, entry{name: name, content: content})
		return err
	}); err != nil {
		return err
	}
	archive, err := tarball(entries, r.time)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+"_"+r.version+layoutEnding), archive, 0o644)
}
