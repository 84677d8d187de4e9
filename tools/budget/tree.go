package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// module is the import path of the root.
const module = "github.com/weirlimit/weir"

// kind is what a file is for.
type kind int

const (
	production kind = iota // what programs are built of
	tests                  // *_test.go
	kit                    // the rest below test/, and packages that are named as httptest is
	simulated              // test/world
	generated
	kinds
)

// tree are the packages of the repository, in the order of their directories.
type tree struct {
	packages []*pkg
	used     map[string]bool // by directory and name, as dir.Name: another package writes it
	module   int             // bytes of bin/weir.wasm
	page     int             // lines of TypeScript
}

// pkg is a directory with Go files.
type pkg struct {
	dir      string     // from the root
	lines    [kinds]int // by kind
	files    int        // of production
	exported []string   // names of production, but for those of package main
	needed   map[string]bool
	sources  []*ast.File
}

// read reads all Go files below root, whatever their build constraints, counts the lines of the dashboard, and the size of the module.
func read(root string) (*tree, error) {
	module, err := os.Stat(filepath.Join(root, "bin", "weir.wasm"))
	if err != nil {
		return nil, fmt.Errorf("%w: run make bin/weir.wasm", err)
	}
	t := &tree{used: map[string]bool{}, module: int(module.Size())}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path) // path is below root
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if rel != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules" || rel == "bin" || rel == "tools") {
				return fs.SkipDir
			}
			return nil
		case strings.HasSuffix(path, ".ts") || strings.HasSuffix(path, ".tsx"):
			text, err := os.ReadFile(path)
			t.page += bytes.Count(text, []byte("\n"))
			return err
		case !strings.HasSuffix(path, ".go"):
			return nil
		}
		return t.in(filepath.ToSlash(filepath.Dir(rel))).read(path)
	})
	slices.SortFunc(t.packages, func(a, b *pkg) int { return strings.Compare(a.dir, b.dir) })
	for _, p := range t.packages {
		for _, f := range p.sources {
			t.note(p, f)
		}
	}
	return t, err
}

// in is the package in a directory.
func (t *tree) in(dir string) *pkg {
	i := slices.IndexFunc(t.packages, func(p *pkg) bool { return p.dir == dir })
	if i < 0 {
		i = len(t.packages)
		t.packages = append(t.packages, &pkg{dir: dir, needed: map[string]bool{}})
	}
	return t.packages[i]
}

// read counts a file.
func (p *pkg) read(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution|parser.ParseComments)
	if err != nil {
		return err
	}
	k := production
	switch {
	case ast.IsGenerated(f):
		k = generated
	case strings.HasSuffix(path, "_test.go"):
		k = tests
	case within(p.dir, "test/world"):
		k = simulated
	case within(p.dir, "test") || strings.HasSuffix(p.dir, "test"):
		k = kit
	default:
		p.files++
		if f.Name.Name != "main" {
			p.declare(f)
		}
	}
	p.lines[k] += bytes.Count(text, []byte("\n"))
	p.sources = append(p.sources, f)
	return nil
}

// declare notes the exported names of a file, but for methods and fields, and what these names
// are made of: whoever uses a function needs the types of its arguments without writing them.
func (p *pkg) declare(f *ast.File) {
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Name.IsExported() {
				p.need(d.Type)
				if d.Recv == nil {
					p.exported = append(p.exported, d.Name.Name)
				}
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					p.declareOne(s.Name, s.Type)
				case *ast.ValueSpec:
					for _, name := range s.Names {
						p.declareOne(name, s.Type)
					}
				}
			}
		}
	}
}

func (p *pkg) declareOne(name *ast.Ident, of ast.Expr) {
	if name.IsExported() {
		p.exported = append(p.exported, name.Name)
		p.need(of)
	}
}

// need notes the names in a type, but for those of unexported fields.
func (p *pkg) need(of ast.Expr) {
	if of == nil {
		return
	}
	ast.Inspect(of, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.StructType:
			for _, field := range n.Fields.List {
				if len(field.Names) == 0 || field.Names[0].IsExported() {
					p.need(field.Type)
				}
			}
			return false
		case *ast.Ident:
			p.needed[n.Name] = true
		}
		return true
	})
}

// note notes what a file of p uses of other packages of ours.
func (t *tree) note(p *pkg, f *ast.File) {
	imports := map[string]string{} // directories by the name that they have in this file
	for _, spec := range f.Imports {
		path, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
		dir, ours := strings.CutPrefix(path, module+"/")
		if !ours || dir == p.dir {
			continue
		}
		name := dir[strings.LastIndex(dir, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imports[name] = dir
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if of, ok := s.X.(*ast.Ident); ok && imports[of.Name] != "" {
				t.used[imports[of.Name]+"."+s.Sel.Name] = true
			}
		}
		return true
	})
}

// unshared are the exported names that no other package writes or needs, as dir.Name.
func (t *tree) unshared() (names []string) {
	for _, p := range t.packages {
		for _, name := range p.exported {
			if full := p.dir + "." + name; !t.used[full] && !p.needed[name] {
				names = append(names, full)
			}
		}
	}
	slices.Sort(names)
	return names
}
