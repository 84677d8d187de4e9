package imports

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// pkg is a package as `go list -json` describes it, without its tests.
type pkg struct {
	ImportPath string
	Name       string
	Dir        string
	Imports    []string // what its files import
	Deps       []string // what these import in turn, all of it
	GoFiles    []string
	CgoFiles   []string
	// IgnoredGoFiles are left out by build constraints, here and now.
	IgnoredGoFiles []string
}

// local is an import path without the module's; false if the package is not ours.
func local(importPath string) (path string, ours bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// load lists the packages that match pattern in the module at root, and all that
// they depend on, dependencies first. env is added to the environment.
func load(root, pattern string, env ...string) ([]*pkg, error) {
	list := exec.Command("go", "list", "-e", "-deps",
		"-json=ImportPath,Name,Dir,Imports,Deps,GoFiles,CgoFiles,IgnoredGoFiles", pattern)
	list.Dir = root
	list.Env = append(os.Environ(), env...)
	var stderr strings.Builder
	list.Stderr = &stderr
	out, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s in %s: %w: %s", pattern, root, err, stderr.String())
	}
	var packages []*pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(pkg)
		if err := d.Decode(p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list %s: %w", pattern, err)
		}
		packages = append(packages, p)
	}
}
