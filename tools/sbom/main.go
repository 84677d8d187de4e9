// Sbom lists what a program is made of, as CycloneDX 1.6 in JSON:
//
//	sbom bin/weir ./cmd/weir                                  writes bin/weir.cdx.json
//	GOOS=wasip1 GOARCH=wasm sbom bin/weir.wasm ./wasmfilter
//
// That is Go's own library and the modules whose packages are compiled in, as `go list` lists them, and the
// packages of npm that are in a page which they serve, as its licenses.txt lists them: what
// only tests or tools use is left out. The same program is the same list, without time or name.
package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

// document is what of CycloneDX is used.
type document struct {
	Format      string      `json:"bomFormat"`
	SpecVersion string      `json:"specVersion"`
	Version     int         `json:"version"`
	Metadata    metadata    `json:"metadata"`
	Components  []component `json:"components"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	PURL    string `json:"purl,omitempty"`
	Hashes  []hash `json:"hashes,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: sbom FILE PACKAGE")
	}
	file, pkg := args[0], args[1]
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	name := filepath.Base(file)
	d := document{Format: "CycloneDX", SpecVersion: "1.6", Version: 1, Metadata: metadata{component{
		Type: "application", Ref: name, Name: name, Hashes: []hash{{"SHA-256", fmt.Sprintf("%x", sha256.Sum256(content))}},
	}}}
	if d.Components, err = compiledIn(pkg); err != nil {
		return err
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file+".cdx.json", append(text, '\n'), 0o644)
}

// compiledIn are the modules that a program is built from for GOOS and GOARCH, by name.
func compiledIn(pkg string) ([]component, error) {
	cmd := exec.Command("go", "list", "-deps", "-json=Dir,EmbedFiles,Module", pkg)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	all := []component{module("std", strings.TrimPrefix(runtime.Version(), "go"))}
	for list := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Dir        string
			EmbedFiles []string
			Module     *struct {
				Path, Version string
				Main          bool
			}
		}
		if err := list.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		if p.Module != nil && !p.Module.Main {
			all = append(all, module(p.Module.Path, p.Module.Version))
		}
		for _, file := range p.EmbedFiles {
			if p.Module == nil || !p.Module.Main || filepath.Base(file) != "licenses.txt" {
				continue
			}
			text, err := os.ReadFile(filepath.Join(p.Dir, file))
			if err != nil {
				return nil, err
			}
			all = append(all, served(string(text))...)
		}
	}
	slices.SortFunc(all, func(a, b component) int { return cmp.Compare(a.PURL, b.PURL) })
	return slices.CompactFunc(all, func(a, b component) bool { return a.PURL == b.PURL }), nil
}

var heading = regexp.MustCompile(`(?m)^# (\S+) (\S+)$`)

// served are the packages of npm that a licenses.txt of tools/dashboard has.
func served(licenses string) (all []component) {
	for _, m := range heading.FindAllStringSubmatch(licenses, -1) {
		purl := "pkg:npm/" + strings.Replace(m[1], "@", "%40", 1) + "@" + m[2]
		all = append(all, component{Type: "library", Ref: purl, Name: m[1], Version: m[2], PURL: purl})
	}
	return all
}

func module(path, version string) component {
	purl := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return component{Type: "library", Ref: purl, Name: path, Version: version, PURL: purl}
}
