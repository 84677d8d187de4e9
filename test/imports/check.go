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

// check holds packages to the rules and returns what is broken, a sentence each.
func check(packages []*pkg) ([]string, error) {
	var complaints []string
	for _, p := range packages {
		name, ours := local(p.ImportPath)
		if !ours {
			continue
		}
		complaints = append(complaints, checkBorders(p, name)...)
		if within(name, contract) {
			complaints = append(complaints, checkContract(p, name)...)
		}
		if !within(name, pure) {
			continue
		}
		complaints = append(complaints, checkPure(p, name)...)
		found, err := checkSource(p, name)
		if err != nil {
			return nil, err
		}
		complaints = append(complaints, found...)
	}
	return complaints, nil
}

// checkBorders looks at who may import from whom.
func checkBorders(p *pkg, name string) []string {
	var complaints []string
	from := tree(name, programs)
	for _, imported := range p.Imports {
		if to, ours := local(imported); ours {
			if within(to, []string{"test"}) && !within(name, []string{"test"}) {
				complaints = append(complaints, fmt.Sprintf(
					"%s imports %s: what is built into programs does without what tests are made of", name, to))
			}
			other := tree(to, programs)
			if other != "" && other != from && !within(to, pure) && !within(name, []string{"test"}) {
				complaints = append(complaints, fmt.Sprintf(
					"%s imports %s: programs are apart from each other; what two need belongs in internal", name, to))
			}
			if from != "" && within(to, parts) && !within(to, open) {
				complaints = append(complaints, fmt.Sprintf(
					"%s imports %s: a program has the parts of a tier through internal/daemon", name, to))
			}
			continue
		}
		for _, c := range confined {
			if within(imported, []string{c.imports}) && !within(name, append(c.home, "test")) &&
				!(p.Name == "main" && slices.Contains(c.home, "main")) {
				complaints = append(complaints, fmt.Sprintf(
					"%s imports %s: only %s may", name, imported, strings.Join(c.home, " and ")))
			}
		}
	}
	return complaints
}

// checkContract looks for a transport in what a contract imports, and in our part of what
// comes with it.
func checkContract(p *pkg, name string) []string {
	var complaints []string
	for _, dependency := range p.Deps {
		to, ours := local(dependency)
		if within(to, transport) && (ours || slices.Contains(p.Imports, dependency)) {
			complaints = append(complaints, fmt.Sprintf("%s depends on %s: a contract knows no transport", name, to))
		}
	}
	return complaints
}

// checkPure looks at what a pure package imports, and at what comes with it.
func checkPure(p *pkg, name string) []string {
	var complaints []string
	for _, imported := range p.Imports {
		to, ours := local(imported)
		switch {
		case ours && !within(to, pure):
			complaints = append(complaints, fmt.Sprintf("%s imports %s: a pure package imports pure packages only", name, to))
		case !ours && strings.Contains(strings.Split(imported, "/")[0], "."):
			complaints = append(complaints, fmt.Sprintf("%s imports %s: a pure package imports the standard library only", name, imported))
		case slices.Contains(impure, imported):
			complaints = append(complaints, fmt.Sprintf("%s imports %s: a pure package does without; take what it needs as an argument", name, imported))
		}
	}
	for _, dependency := range p.Deps {
		if slices.Contains(heavy, dependency) {
			complaints = append(complaints, fmt.Sprintf(
				"%s depends on %s: it makes the filter large; use strconv, errors.New or a few lines by hand", name, dependency))
		}
	}
	return complaints
}

// checkSource looks for goroutines and clocks in the files of a pure package,
// whatever their build constraints.
func checkSource(p *pkg, name string) ([]string, error) {
	var complaints []string
	for _, file := range slices.Concat(p.GoFiles, p.CgoFiles, p.IgnoredGoFiles) {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, filepath.Join(p.Dir, file), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		complain := func(n ast.Node, what string) {
			at := set.Position(n.Pos())
			complaints = append(complaints, fmt.Sprintf("%s:%d %s", path.Join(name, file), at.Line, what))
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
	return complaints, nil
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

// checkFilter looks at what the filter is linked from: packages, and all that they
// depend on.
func checkFilter(packages []*pkg) []string {
	var complaints []string
	for _, p := range packages {
		if within(p.ImportPath, absent) {
			complaints = append(complaints, fmt.Sprintf("the filter contains %s, through %s",
				p.ImportPath, strings.Join(importers(packages, p.ImportPath), ", ")))
		}
	}
	return complaints
}

// importers are the packages that import a package directly.
func importers(packages []*pkg, importPath string) []string {
	var list []string
	for _, p := range packages {
		if slices.Contains(p.Imports, importPath) {
			list = append(list, p.ImportPath)
		}
	}
	return list
}
