package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
)

// push brings the images of a release to a registry, and writes their names with digests. The prefix stands for weir in
// the names of images. Credentials are those of `docker login`. Nothing is pushed where one image may not be: one that was
// made of no commit, or with a tag that the registry has for another.
func push(dir, prefix string, out io.Writer) (err error) {
	if host, _, named := strings.Cut(prefix, "/"); !named || !strings.ContainsAny(host, ".:") && host != "localhost" {
		return fmt.Errorf("IMAGES is %q, which names no registry: write one such as IMAGES=registry.example/weir", prefix)
	}
	if err := errors.Join(checkSums(dir), checkCommitted(dir)); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"+layoutEnding))
	if err != nil || len(files) == 0 {
		return errors.Join(err, fmt.Errorf("there are no images in %s: run make release", dir))
	}
	unpacked, err := os.MkdirTemp("", "weir-layout-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(unpacked)) }()
	tags, digests, images := make([]name.Tag, len(files)), make([]v1.Hash, len(files)), make([]remote.Taggable, len(files))
	for i, file := range files {
		image, version, _ := strings.Cut(strings.TrimSuffix(filepath.Base(file), layoutEnding), "_")
		if tags[i], err = name.NewTag(prefix + strings.TrimPrefix(image, "weir") + ":" + version); err != nil {
			return err
		}
		if digests[i], images[i], err = readLayout(file, filepath.Join(unpacked, image)); err != nil {
			return err
		}
		if err := checkTag(tags[i], digests[i]); err != nil {
			return fmt.Errorf("%s: %w", tags[i], err)
		}
	}
	for i, to := range tags {
		if err := remote.Push(to, images[i], credentials); err != nil {
			return fmt.Errorf("%s: %w", to, err)
		}
		if _, err := fmt.Fprintf(out, "%s@%s\n", to, digests[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkCommitted rejects a release whose provenance states changes.
func checkCommitted(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*_provenance.json"))
	if err != nil || len(files) != 1 {
		return errors.Join(err, fmt.Errorf("%s has no provenance: run make release", dir))
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		return err
	}
	var of statement
	if err := json.Unmarshal(text, &of); err != nil {
		return fmt.Errorf("%s: %w", files[0], err)
	}
	for _, source := range of.Predicate.BuildDefinition.ResolvedDependencies {
		if source.Annotations["changed"] != "" {
			return fmt.Errorf("%s states that %s: commit them, and run make release", files[0], source.Annotations["changed"])
		}
	}
	return nil
}

// credentials are those of `docker login`.
var credentials = remote.WithAuthFromKeychain(authn.DefaultKeychain)

// checkTag rejects a tag that the registry has for another image: whoever runs it would get this one.
func checkTag(tag name.Tag, digest v1.Hash) error {
	there, err := remote.Head(tag, credentials)
	if answer := (&transport.Error{}); errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound {
		return nil
	}
	if err == nil && there.Digest != digest {
		return fmt.Errorf("the registry has another image by this name, %s: release another version", there.Digest)
	}
	return err
}

// readLayout unpacks the one image of a layout, for one architecture or several, into a directory.
func readLayout(file, dir string) (digest v1.Hash, image remote.Taggable, err error) {
	if err := unpack(file, dir); err != nil {
		return digest, nil, err
	}
	index, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		return digest, nil, err
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		return digest, nil, err
	}
	if len(manifest.Manifests) != 1 {
		return digest, nil, fmt.Errorf("%s has %d images, which must be one", file, len(manifest.Manifests))
	}
	digest = manifest.Manifests[0].Digest
	if manifest.Manifests[0].MediaType.IsIndex() {
		image, err = index.ImageIndex(digest)
	} else {
		image, err = index.Image(digest)
	}
	return digest, image, err
}

// unpack writes the files of a tar into a directory.
func unpack(file, dir string) error {
	archive, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if !filepath.IsLocal(h.Name) {
			return fmt.Errorf("%s has %s, which is outside of it", file, h.Name)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		to := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, content, 0o600)); err != nil {
			return err
		}
	}
}
