package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// A registry takes the images and gives them back whole: each for both architectures, with what the Dockerfile states. The
// filter's has what those who run filters read: one layer of the type that they ask for, with plugin.wasm and nothing else.
func TestPushAndPull(t *testing.T) {
	s := newStandIn(t)
	s.mustPack(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	prefix := strings.TrimPrefix(server.URL, "http://") + "/acme/weir"
	var printed strings.Builder
	must(t, push(s.dir, prefix, &printed))
	provenance, err := os.ReadFile(filepath.Join(s.dir, "weir_1.2.3_provenance.json"))
	must(t, err)
	lines := strings.Split(strings.TrimSpace(printed.String()), "\n")
	if len(lines) != 4 {
		t.Errorf("printed %q", lines)
	}
	for _, line := range lines {
		_, digest, _ := strings.Cut(line, "@sha256:")
		if _, err := name.NewDigest(line); err != nil || !bytes.Contains(provenance, []byte(digest)) {
			t.Errorf("%s: %v, or not in the provenance", line, err)
		}
	}
	for suffix, want := range map[string]wanted{
		"-regional": {[]string{"var/", "var/lib/", "var/lib/weir/", "weir-regional", "weir"}, []string{"8080/tcp", "8081/tcp", "8090/tcp"}, true},
		"-global":   {[]string{"var/", "var/lib/", "var/lib/weir/", "weir-global", "weir"}, []string{"8080/tcp", "8090/tcp"}, true},
		"":          {[]string{"var/", "var/lib/", "var/lib/weir/", "weir", "weir.wasm", "weir.so"}, nil, false},
	} {
		index, err := remote.Index(tag(t, prefix+suffix))
		must(t, err)
		if err := validate.Index(index); err != nil {
			t.Errorf("%s: %v", suffix, err)
		}
		manifest, err := index.IndexManifest()
		if err != nil || len(manifest.Manifests) != 2 || manifest.MediaType != types.OCIImageIndex || manifest.Annotations["org.opencontainers.image.version"] != "1.2.3" {
			t.Fatalf("%s: %+v, %v", suffix, manifest, err)
		}
		for i, arch := range []string{"amd64", "arm64"} {
			if p := manifest.Manifests[i].Platform; p == nil || p.OS != "linux" || p.Architecture != arch {
				t.Errorf("%s: platform %v, want %s", suffix, p, arch)
			}
			image, err := index.Image(manifest.Manifests[i].Digest)
			must(t, err)
			s.checkImage(t, image, "weir"+suffix, arch, want)
		}
	}
	image, err := remote.Image(tag(t, prefix+"-filter"))
	must(t, err)
	layers, err := image.Layers()
	if err := errors.Join(err, validate.Image(image)); err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	if kind, err := layers[0].MediaType(); err != nil || kind != types.OCILayer {
		t.Errorf("the layer has type %q, %v", kind, err)
	}
	if got := files(t, image); len(got) != 1 || got[0].name != "plugin.wasm" || got[0].content != "#!weir.wasm for wasip1_wasm" {
		t.Errorf("it has %v", got)
	}
}

// wanted is what an image must have.
type wanted struct {
	files, ports []string
	volume       bool
}

// checkImage compares the image of one architecture with what it must have.
func (s *standIn) checkImage(t *testing.T, image v1.Image, title, arch string, want wanted) {
	t.Helper()
	file, err := image.ConfigFile()
	must(t, err)
	c := file.Config
	if file.OS != "linux" || file.Architecture != arch || file.Created.Unix() != 1700000000 || c.User != "65532:65532" || c.WorkingDir != "/var/lib/weir" ||
		!slices.Equal(c.Entrypoint, []string{"/" + title}) || len(c.Cmd) > 0 {
		t.Errorf("%s: %+v", title, file)
	}
	if _, kept := c.Volumes["/var/lib/weir"]; kept != want.volume || len(c.ExposedPorts) != len(want.ports) {
		t.Errorf("%s: volumes %v, ports %v", title, c.Volumes, c.ExposedPorts)
	}
	for _, port := range want.ports {
		if _, open := c.ExposedPorts[port]; !open {
			t.Errorf("%s: ports %v, want %s", title, c.ExposedPorts, port)
		}
	}
	if l := c.Labels; l["org.opencontainers.image.title"] != title || l["org.opencontainers.image.version"] != "1.2.3" || l["org.opencontainers.image.revision"] != s.commit ||
		l["org.opencontainers.image.created"] != "2023-11-14T22:13:20Z" || l["org.opencontainers.image.source"] == "" || l["org.opencontainers.image.licenses"] != "Apache-2.0" {
		t.Errorf("%s: labels %v", title, l)
	}
	var names []string
	for _, f := range files(t, image) {
		names = append(names, f.name)
		switch mode := map[bool]int64{true: 0o644, false: 0o755}[strings.Contains(f.name, ".")]; {
		case f.Mode != mode:
			t.Errorf("%s: %s has mode %o", title, f.name, f.Mode)
		case f.name == "var/lib/weir/" && (f.Uid != 65532 || f.Gid != 65532), f.name != "var/lib/weir/" && f.Uid != 0:
			t.Errorf("%s: %s belongs to %d", title, f.name, f.Uid)
		case strings.HasPrefix(f.name, "weir") && f.name != filter && f.content != "#!"+f.name+" for linux_"+arch:
			t.Errorf("%s for %s: %s is %q", title, arch, f.name, f.content)
		}
	}
	if !slices.Equal(names, want.files) {
		t.Errorf("%s: files %q, want %q", title, names, want.files)
	}
}

// A name without a registry is rejected: it would go to the one that Docker asks by default.
func TestPushNowhere(t *testing.T) {
	s := newStandIn(t)
	for _, prefix := range []string{"weir", "acme/weir", "127.0.0.1"} {
		if err := push(s.dir, prefix, io.Discard); err == nil || !strings.Contains(err.Error(), "IMAGES=registry.example/weir") {
			t.Errorf("%s: %v", prefix, err)
		}
	}
	if err := push(s.dir, "registry.example/weir", io.Discard); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("nothing was made, and pushed: %v", err)
	}
}

// What was made of no commit is not pushed, nor anything where the registry has another image by one of the names. The
// same images are pushed again.
func TestPushNothingElse(t *testing.T) {
	s := newStandIn(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	prefix := strings.TrimPrefix(server.URL, "http://") + "/weir"
	expect := func(prefix, want string) {
		t.Helper()
		s.mustPack(t)
		if err := push(s.dir, prefix, io.Discard); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	s.changed = true
	expect(prefix, "weir_1.2.3_provenance.json states that files are in no commit, or differ from this one: commit them")
	if _, err := remote.Head(tag(t, prefix)); err == nil {
		t.Error("an image of no commit was pushed")
	}
	s.changed = false
	expect(prefix, "")
	expect(prefix, "")
	must(t, os.WriteFile(filepath.Join(s.built, "wasip1_wasm", filter), []byte("another"), 0o600))
	expect(prefix, "the registry has another image by this name, sha256:")
	other := prefix + "2" // has but the last of them
	image, err := remote.Image(tag(t, prefix+"-filter"))
	must(t, err)
	must(t, remote.Write(tag(t, other+"-regional"), image))
	expect(other, other+"-regional:1.2.3: the registry has another image")
	if _, err := remote.Head(tag(t, other)); err == nil {
		t.Error("an image was pushed before the one that was rejected")
	}
	expect("127.0.0.1:1/weir", "connection refused") // what cannot be asked is not pushed
}

// A tar that names a file outside of itself is not unpacked.
func TestUnpackOutside(t *testing.T) {
	archive, err := tarball([]entry{{name: "../outside"}}, time.Unix(0, 0))
	must(t, err)
	dir := t.TempDir()
	file := filepath.Join(dir, "a.tar")
	must(t, os.WriteFile(file, archive, 0o600))
	if err := unpack(file, filepath.Join(dir, "in")); err == nil || !strings.Contains(err.Error(), "../outside") {
		t.Errorf("%v", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "outside")); err == nil {
		t.Error("it is there")
	}
}

// tag is the tag of the stand-in's version.
func tag(t *testing.T, repository string) name.Tag {
	t.Helper()
	tag, err := name.NewTag(repository + ":1.2.3")
	must(t, err)
	return tag
}

type inLayer struct {
	tar.Header
	name, content string
}

func (f inLayer) String() string { return fmt.Sprint(f.name, " ", f.content) }

// files are those of all layers, in their order.
func files(t *testing.T, image v1.Image) (all []inLayer) {
	t.Helper()
	layers, err := image.Layers()
	must(t, err)
	for _, layer := range layers {
		content, err := layer.Uncompressed()
		must(t, err)
		archive, err := io.ReadAll(content)
		if err = errors.Join(err, content.Close()); err != nil { // a client opens but some at once
			t.Fatal(err)
		}
		for r := tar.NewReader(bytes.NewReader(archive)); ; {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			must(t, err)
			text, err := io.ReadAll(r)
			must(t, err)
			all = append(all, inLayer{*h, h.Name, string(text)})
		}
	}
	return all
}
