package imports

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
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
		r.borders(p, name)
		if within(name, contract) {
			r.contract(p, name)
		}
		if within(name, pure) {
			r.pure(p, name)
			if err := r.source(p, name); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// borders looks at who may import from whom.
func (r *report) borders(p *pkg, name string) {
	from, isTest := tree(name, programs), within(name, []string{"test"})
	for _, imported := range p.Imports {
		if to, ours := local(imported); ours {
			if within(to, []string{"test"}) && !isTest {
				r.add("%s imports %s: what is built into programs does without what tests are made of", name, to)
			}
			if other := tree(to, programs); other != "" && other != from && !within(to, pure) && !isTest {
				r.add("%s imports %s: programs are apart from each other; what two need belongs in internal", name, to)
			}
			if from != "" && within(to, parts) && !within(to, open) {
				r.add("%s imports %s: a program has the parts of a tier through internal/daemon", name, to)
			}
			continue
		}
		for _, c := range confined {
			inMain := p.Name == "main" && slices.Contains(c.home, "main")
			if within(imported, []string{c.imports}) && !within(name, c.home) && !isTest && !inMain {
				r.add("%s imports %s: only %s may", name, imported, strings.Join(c.home, " and "))
			}
		}
	}
}

// contract looks for a transport in what a contract imports, and in our part of what comes with it.
func (r *report) contract(p *pkg, name string) {
	for _, dependency := range p.Deps {
		to, ours := local(dependency)
		if within(to, transport) && (ours || slices.Contains(p.Imports, dependency)) {
			r.add("%s depends on %s: a contract knows no transport", name, to)
		}
	}
}

// pure looks at what a pure package imports, and at what comes with it.
func (r *report) pure(p *pkg, name string) {
	for _, imported := range p.Imports {
		to, ours := local(imported)
		switch {
		case ours && !within(to, pure):
			r.add("%s imports %s: a pure package imports pure packages only", name, to)
		case !ours && strings.Contains(strings.Split(imported, "/")[0], "."):
			r.add("%s imports %s: a pure package imports the standard library only", name, imported)
		case slices.Contains(impure, imported):
			r.add("%s imports %s: a pure package does without; take what it needs as an argument", name, imported)
		}
	}
	for _, dependency := range p.Deps {
		if slices.Contains(heavy, dependency) {
			r.add("%s depends on %s: it makes the filter large; use strconv, errors.New or a few lines by hand", name, dependency)
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

// checkFilter looks at what the filter is linked from: packages, and all that they depend on.
func checkFilter(packages []*pkg) (r report) {
	for _, p := range packages {
		if within(p.ImportPath, absent) {
			r.add("the filter contains %s, through %s", p.ImportPath, strings.Join(importers(packages, p.ImportPath), ", "))
		}
	}
	return r
}

// importers are the packages that import a package directly.
func importers(packages []*pkg, importPath string) (list []string) {
	for _, p := range packages {
		if slices.Contains(p.Imports, importPath) {
			list = append(list, p.ImportPath)
		}
	}
	return list
}
