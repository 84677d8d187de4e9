package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// repository is where the sources are.
const repository = "https://github.com/weirlimit/weir"

// statement is one of in-toto, with SLSA's provenance.
type statement struct {
	Type          string    `json:"_type"`
	Subject       []subject `json:"subject"`
	PredicateType string    `json:"predicateType"`
	Predicate     predicate `json:"predicate"`
}

type subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

type predicate struct {
	BuildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]string `json:"externalParameters"`
		InternalParameters   map[string]string `json:"internalParameters"`
		ResolvedDependencies []dependency      `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

// dependency is the commit. It names no repository that has it: which one that is was not checked.
type dependency struct {
	Name        string            `json:"name"`
	Digest      map[string]string `json:"digest"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// provenance writes of what and how the files of a directory were made, and the images.
func (r *release) provenance(dir string, digests map[string]string) error {
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	files, err := hashes(dir)
	if err != nil {
		return err
	}
	for _, all := range []map[string]string{files, digests} {
		for name, hash := range all {
			s.Subject = append(s.Subject, subject{name, map[string]string{"sha256": hash}})
		}
	}
	slices.SortFunc(s.Subject, func(a, b subject) int { return cmp.Compare(a.Name, b.Name) })
	source := dependency{Name: "weir", Digest: map[string]string{"gitCommit": r.commit}}
	if r.changed {
		source.Annotations = map[string]string{"changed": "files are in no commit, or differ from this one"}
	}
	d := &s.Predicate.BuildDefinition
	d.BuildType = repository + "/blob/v" + r.version + "/CONTRIBUTING.md#release"
	d.ExternalParameters = map[string]string{"command": "make release", "version": "v" + r.version}
	d.InternalParameters = map[string]string{
		"go": r.goes, "signature": "none: this is what the one who ran the command states. The same commit and the same Go make the same bytes.",
	}
	d.ResolvedDependencies = []dependency{source}
	s.Predicate.RunDetails.Builder.ID = repository + "/blob/v" + r.version + "/tools/release"
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "weir_"+r.version+"_provenance.json"), append(text, '\n'), 0o644)
}

// sumsFile has the sums of all other files of a release, as sha256sum reads them.
const sumsFile = "SHA256SUMS"

// hashes are the SHA-256 of the files of a directory, by name.
func hashes(dir string) (map[string]string, error) {
	files, err := os.ReadDir(dir)
	all := map[string]string{}
	for _, f := range files {
		content, failed := os.ReadFile(filepath.Join(dir, f.Name()))
		err = errors.Join(err, failed)
		all[f.Name()] = fmt.Sprintf("%x", sha256.Sum256(content))
	}
	delete(all, sumsFile)
	return all, err
}

func writeSums(dir string) error {
	all, err := hashes(dir)
	if err != nil {
		return err
	}
	var lines []string
	for name, hash := range all {
		lines = append(lines, hash+"  "+name+"\n")
	}
	slices.SortFunc(lines, func(a, b string) int { return cmp.Compare(a[sha256.Size*2:], b[sha256.Size*2:]) })
	return os.WriteFile(filepath.Join(dir, sumsFile), []byte(strings.Join(lines, "")), 0o644)
}

// checkSums rejects files that are not as a release was made, and those that are missing or more.
func checkSums(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, sumsFile))
	if err != nil {
		return err
	}
	all, err := hashes(dir)
	if err != nil {
		return err
	}
	want := map[string]string{}
	for line := range strings.Lines(string(text)) {
		hash, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "  ")
		want[name] = hash
	}
	names := maps.Clone(all)
	maps.Copy(names, want)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if all[name] != want[name] {
			return fmt.Errorf("%s is not the file of which %s has the sum: run make release again, or download it again", filepath.Join(dir, name), sumsFile)
		}
	}
	return nil
}
