package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/proc"
)

const (
	module = "github.com/weirlimit/weir/"
	// mostWalkFiles is how many files a reader opens to follow one list.
	mostWalkFiles = 10
	// mostCalls is how many calls a reader follows from one step to the next.
	mostCalls = 3
)

// begins are steps that no earlier step calls, each with what leads to it.
var begins = map[string]string{
	"wasmfilter/edge/uplink/send.go: Uplink.send":          "the worker, when requests have been decided or time has passed",
	"wasmfilter/edge/worker.go: Worker.Reply":              "the answer of the region",
	"wasmfilter/filter/response.go: plugin.refuse":         "the list of requests that a worker has decided",
	"wasmfilter/edge/upkeep.go: upkeep.scan":               "a tick",
	"internal/redis/redisstore/sender.go: sender.exchange": "a goroutine, which takes what has gathered",
	"internal/leasecache/reply.go: cached.noteReply":       "the reply of the store",
	"internal/leasecache/key.go: Store.Sweep":              "a timer",
	"internal/engine/judge.go: judge.judgment":             "the reply of the lease cache",
	"internal/upstream/store.go: Store.Acquire":            "the end of the call that it made",
}

// walk is a section of the page: lists of steps, and functions that the prose names.
type walk struct {
	title string
	lists [][]string // functions, as "file: name", and other files
	named []string   // all functions of the section
}

var (
	named     = regexp.MustCompile("`([a-z_/0-9]+\\.(?:go|lua))(?:: ([A-Za-z]+(?:\\.[A-Za-z]+)?))?`")
	listBegin = regexp.MustCompile(`(?m)^1\. `)
)

// walks reads the page.
func walks(text string) (all []walk) {
	_, text, _ = strings.Cut(text, " walks through the code\n")
	for _, section := range strings.Split(text, "\n### ")[1:] {
		title, body, _ := strings.Cut(section, "\n")
		w := walk{title: title, named: names(body)}
		w.named = slices.DeleteFunc(w.named, func(n string) bool { return !strings.Contains(n, ": ") })
		for _, list := range listBegin.Split(body, -1)[1:] {
			list, _, _ = strings.Cut(list, "\n\n")
			w.lists = append(w.lists, names(list))
		}
		all = append(all, w)
	}
	return all
}

// names are the files and functions of a text, which may go over the ends of lines.
func names(text string) (all []string) {
	for _, m := range named.FindAllStringSubmatch(strings.Join(strings.Fields(text), " "), -1) {
		if m[2] != "" {
			m[1] += ": " + m[2]
		}
		all = append(all, m[1])
	}
	return all
}

// file is the file of a name.
func file(name string) string {
	path, _, _ := strings.Cut(name, ":")
	return path
}

// function is one that the code declares, and what it calls, or hands on in a call: functions as
// "directory.name", methods by their name.
type function struct {
	dir, name string // name with its receiver
	calls     map[string]bool
}

// is reports whether a call may be one of f.
func (f *function) is(call string) bool {
	_, method, ok := strings.Cut(f.name, ".")
	return ok && call == method || !ok && call == f.dir+"."+f.name
}

// functions are those of a file, by "path: name".
func functions(path string, text []byte) (map[string]*function, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	imports := map[string]string{}
	for _, spec := range parsed.Imports {
		from, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
		name := from[strings.LastIndex(from, "/")+1:]
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imports[name] = strings.TrimPrefix(from, module)
	}
	all := map[string]*function{}
	for _, d := range parsed.Decls {
		f, ok := d.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		found := &function{dir: filepath.Dir(path), name: receiver(f) + f.Name.Name, calls: map[string]bool{}}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				for _, of := range append([]ast.Expr{call.Fun}, call.Args...) {
					if name := called(of, found.dir, imports); name != "" {
						found.calls[name] = true
					}
				}
			}
			return true
		})
		all[path+": "+found.name] = found
	}
	return all, nil
}

// called is the name of a function or method; empty: it is something else.
func called(of ast.Expr, dir string, imports map[string]string) string {
	switch of := of.(type) {
	case *ast.IndexExpr:
		return called(of.X, dir, imports)
	case *ast.Ident:
		return dir + "." + of.Name
	case *ast.SelectorExpr:
		if x, ok := of.X.(*ast.Ident); ok && imports[x.Name] != "" {
			return imports[x.Name] + "." + of.Sel.Name
		}
		return of.Sel.Name
	}
	return ""
}

// follow holds a walk against the code, the functions of all packages that it names.
func (w *walk) follow(code map[string]*function, begins map[string]string) (problems []string) {
	complain := func(format string, args ...any) {
		problems = append(problems, w.title+": "+fmt.Sprintf(format, args...))
	}
	for _, n := range w.named {
		if code[n] == nil {
			complain("there is no %s", n)
		}
	}
	for _, list := range w.lists {
		var files, steps []string
		for _, n := range list {
			if at := slices.Index(files, file(n)); at < 0 {
				files = append(files, file(n))
			} else if at != len(files)-1 {
				complain("it goes back to %s after %s", file(n), files[len(files)-1])
			}
			if code[n] == nil {
				continue // not Go, or a problem by now
			}
			if len(steps) > 0 && begins[n] == "" && !reaches(code, steps, n) {
				complain("within %d calls no step before it comes to %s: %q", mostCalls, n, steps)
			}
			steps = append(steps, n)
		}
		if len(files) > mostWalkFiles {
			complain("a list leads through %d files, want at most %d: %q", len(files), mostWalkFiles, files)
		}
	}
	return problems
}

// reaches reports whether one of steps comes to a function by a few calls.
func reaches(code map[string]*function, steps []string, name string) bool {
	at, seen := steps, map[string]bool{}
	for range mostCalls {
		var next []string
		for _, from := range at {
			for n, f := range code {
				if seen[n] || !f.isCalled(code[from]) {
					continue
				}
				if n == name {
					return true
				}
				seen[n], next = true, append(next, n)
			}
		}
		at = next
	}
	return false
}

// isCalled reports whether another function may call f.
func (f *function) isCalled(by *function) bool {
	for call := range by.calls {
		if f.is(call) {
			return true
		}
	}
	return false
}

// Each walk through the code is the way that the code goes, short, and never goes back to a file
// that it has left.
func TestWalksFollowTheCode(t *testing.T) {
	all := walks(read(t, "docs/how-it-works.md"))
	if len(all) != 5 {
		t.Errorf("docs/how-it-works.md has %d walks, want 5", len(all))
	}
	unused := maps.Clone(begins)
	for _, w := range all {
		code := map[string]*function{}
		for _, n := range w.named {
			delete(unused, n)
			load(t, code, path.Dir(file(n)))
		}
		for _, p := range w.follow(code, begins) {
			t.Error(p)
		}
	}
	for n := range unused {
		t.Errorf("no walk has the step %s: it need not be in the list", n)
	}
}

// load adds the functions of a package.
func load(t *testing.T, code map[string]*function, dir string) {
	t.Helper()
	root := proc.Root(t)
	found, err := filepath.Glob(filepath.Join(root, dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range found {
		if strings.HasSuffix(name, "_test.go") {
			continue // who calls a step is not a test
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		of, err := functions(path.Join(dir, filepath.Base(name)), text)
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(code, of)
	}
}
