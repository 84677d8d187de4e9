package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The provenance has the sum of each file and the commit, and states that nobody has signed it.
func TestProvenance(t *testing.T) {
	s := newStandIn(t)
	s.changed = true
	s.mustPack(t)
	text, err := os.ReadFile(filepath.Join(s.dir, "weir_1.2.3_provenance.json"))
	must(t, err)
	var got statement
	must(t, json.Unmarshal(text, &got))
	want, err := hashes(s.dir)
	must(t, err)
	delete(want, "weir_1.2.3_provenance.json")
	images := 0
	for _, of := range got.Subject {
		if strings.Contains(of.Name, ":") {
			images++
			continue
		}
		if of.Digest["sha256"] != want[of.Name] {
			t.Errorf("%s has the digest %v, want %s", of.Name, of.Digest, want[of.Name])
		}
		delete(want, of.Name)
	}
	if len(want) > 0 || images != 4 {
		t.Errorf("it has %d images and lacks %v", images, want)
	}
	d := got.Predicate.BuildDefinition
	if got.Type != "https://in-toto.io/Statement/v1" || got.PredicateType != "https://slsa.dev/provenance/v1" || d.ExternalParameters["command"] != "make release" ||
		d.InternalParameters["go"] != "go1.26.8" || !strings.HasPrefix(d.InternalParameters["signature"], "none") ||
		len(d.ResolvedDependencies) != 1 || d.ResolvedDependencies[0].Digest["gitCommit"] != s.commit || d.ResolvedDependencies[0].Annotations["changed"] == "" || bytes.Contains(text, []byte("git+")) {
		t.Errorf("the statement is %s", text)
	}
}

// Sums that are missing, cut or not those of all files are rejected, and nothing is pushed.
func TestCheckSums(t *testing.T) {
	s := newStandIn(t)
	s.mustPack(t)
	file := filepath.Join(s.dir, sumsFile)
	whole, err := os.ReadFile(file)
	must(t, err)
	first, rest, _ := strings.Cut(string(whole), "\n")
	for sums, rejected := range map[string]bool{
		string(whole): false, "": true, rest: true, first + "\n": true, string(whole[:len(whole)-3]): true,
		string(whole) + "more\n": true, string(whole) + strings.Repeat("ab", 32) + "  weir_9_oci.tar\n": true,
	} {
		must(t, os.WriteFile(file, []byte(sums), 0o600))
		if err := checkSums(s.dir); rejected != (err != nil && strings.Contains(err.Error(), "is not the file of which SHA256SUMS has the sum")) {
			t.Errorf("%q: %v", sums, err)
		}
	}
	must(t, errors.Join(os.WriteFile(file, whole, 0o600), os.WriteFile(filepath.Join(s.dir, "weir-more_1.2.3_oci.tar"), nil, 0o600)))
	if err := push(s.dir, "127.0.0.1:1/weir", io.Discard); err == nil || !strings.Contains(err.Error(), "weir-more_1.2.3_oci.tar is not the file") {
		t.Errorf("pushed: %v", err)
	}
}

// The version is that of the tree, and a tag that differs is rejected before anything is made.
func TestVersion(t *testing.T) {
	t.Chdir("../..")
	r, err := describe(".")
	must(t, err)
	text, err := os.ReadFile(versionFile)
	if err != nil || !strings.Contains(string(text), `"v`+r.version+`"`) || !strings.HasPrefix(r.goes, "go1.") {
		t.Errorf("%+v, %v", r, err)
	}
	if err := run(filepath.Join(t.TempDir(), "dist"), "v"+r.version+"9", "zig"); err == nil || !strings.Contains(err.Error(), "write the same in both") {
		t.Errorf("%v", err)
	}
}

// What a machine or a folder above sets for Go is not what a release is built with.
func TestSameSettings(t *testing.T) {
	root := t.TempDir()
	tree := filepath.Join(root, "tree")
	must(t, errors.Join(os.Mkdir(tree, 0o700), os.WriteFile(filepath.Join(root, "go.work"), []byte("go 1.25\n"), 0o600)))
	names := []string{"CGO_ENABLED", "GOFLAGS", "GOAMD64", "GOWORK"}
	for i, value := range []string{"1", "-tags=mine", "v3"} {
		t.Setenv(names[i], value)
	}
	got, err := output(tree, "go", append([]string{"env"}, names...)...)
	if want := "0\n-trimpath -buildvcs=false\nv1\noff"; err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

// A release is of a commit of this repository: sources without one, and those in a repository of others, are rejected.
func TestNoCheckout(t *testing.T) {
	root := t.TempDir()
	sources := filepath.Join(root, "vendored")
	path := filepath.Join(sources, versionFile)
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	expect := func(text, want string) *release {
		t.Helper()
		must(t, os.WriteFile(path, []byte(text), 0o600))
		r, err := describe(sources)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Fatalf("%v, want %q", err, want)
		}
		return r
	}
	const text = "package version\n\nconst Version = \"v2.0.1-rc.1\"\n"
	expect("package version\n\nconst Version = \"2.0\"\n", "has no version")
	expect(text, "make the release in a git checkout of Weir")
	git(t, root, "init", "--quiet")
	git(t, root, "commit", "--quiet", "--allow-empty", "--message", "others")
	expect(text, "make the release in a git checkout of Weir")
	git(t, root, "add", ".")
	expect(text, "make the release in a git checkout of Weir")
	git(t, sources, "init", "--quiet")
	git(t, sources, "add", ".")
	git(t, sources, "commit", "--quiet", "--message", "ours")
	if r := expect(text, ""); r.version != "2.0.1-rc.1" || len(r.commit) != 40 || r.changed || time.Since(r.time) > time.Hour {
		t.Errorf("%+v", r)
	}
	if r := expect(text+"\n", ""); !r.changed {
		t.Errorf("%+v", r)
	}
	git(t, sources, "config", "status.showUntrackedFiles", "no") // what is not in the commit is compiled, too
	must(t, os.WriteFile(filepath.Join(sources, "more.go"), []byte("package weir\n"), 0o600))
	if r := expect(text, ""); !r.changed {
		t.Errorf("%+v", r)
	}
	t.Setenv("GOENV", filepath.Join(root, "env"))
	must(t, os.WriteFile(filepath.Join(root, "env"), []byte("GOEXPERIMENT=jsonv2\n"), 0o600))
	expect(text, "go env -u GOEXPERIMENT GOWASM")
}
