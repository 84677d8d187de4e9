package imports

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// report has what is broken, a sentence each.
type report []string

func (r *report) add(format string, args ...any) { *r = append(*r, fmt.Sprintf(format, args...)) }

// check holds packages to the rules and returns what is broken.
func check(packages []*pkg) (r report, err error) {
	for _, p := range packages {
		name, ours := local(p.ImportPath)
		if !ours {
			continue
		}
		for _, imported := range p.Imports {
			r.imports(p, name, imported)
		}
		for _, f := range forbidden {
			of := p.Imports
			if f.deep {
				of = p.Deps
			}
			for _, path := range of {
				if to, _ := local(path); within(name, f.in) && matches(to, f.what) {
					r.add("%s needs %s: %s", name, to, f.why)
				}
			}
		}
		if within(name, pure) {
			if err := r.source(p, name); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// imports looks at one import of a package.
func (r *report) imports(p *pkg, name, imported string) {
	from, isTest, isPure := tree(name, programs), within(name, []string{"test"}), within(name, pure)
	to, ours := local(imported)
	if isPure && ours && !within(to, pure) {
		r.add("%s imports %s: a pure package imports pure packages only", name, to)
	}
	if isPure && !ours && strings.Contains(strings.Split(imported, "/")[0], ".") {
		r.add("%s imports %s: a pure package imports the standard library only", name, imported)
	}
	if isTest {
		return
	}
	if other := tree(to, programs); ours && other != "" && other != from && !within(to, pure) && !within(name, []string{"internal/ruleset/ruletests"}) {
		r.add("%s imports %s: programs are apart from each other; what two need belongs in internal", name, to)
	}
	if ours && from != "" && within(to, parts) && !within(to, open) {
		r.add("%s imports %s: a program has the parts of a tier through internal/daemon", name, to)
	}
	for _, c := range confined {
		if within(imported, []string{c.imports}) && !within(name, c.home) && !(p.Name == "main" && slices.Contains(c.home, "main")) {
			r.add("%s imports %s: only %s may", name, imported, strings.Join(c.home, " and "))
		}
	}
}

// source looks for goroutines and clocks in the files of a pure package, whatever their build constraints.
func (r *report) source(p *pkg, name string) error {
	for _, file := range slices.Concat(p.GoFiles, p.CgoFiles, p.IgnoredGoFiles) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		complain := func(n ast.Node, what string) {
			r.add("%s:%d %s", path.Join(name, file), set.Position(n.Pos()).Line, what)
		}
		timeName := importedAs(parsed, "time")
		if timeName == "." {
			complain(parsed, "imports time with a dot: the rules cannot see what it uses")
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt:
				complain(n, "starts a goroutine: a pure package returns what is to be done")
			case *ast.SelectorExpr:
				if of, ok := n.X.(*ast.Ident); ok && of.Name == timeName && slices.Contains(clock, n.Sel.Name) {
					complain(n, "uses time."+n.Sel.Name+": time is an argument")
				}
			}
			return true
		})
	}
	return nil
}

// importedAs is the name under which a file imports a package; empty: it does not.
func importedAs(f *ast.File, importPath string) string {
	for _, spec := range f.Imports {
		if spec.Path.Value == strconv.Quote(importPath) {
			if spec.Name != nil {
				return spec.Name.Name
			}
			return path.Base(importPath)
		}
	}
	return ""
}

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
