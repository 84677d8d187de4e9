package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/format"
	"go/token"
	"go/types"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/tools/go/ast/astutil"
	"golang.org/x/tools/go/packages"
)

// switches are what the mutated code calls. Without MUTANT each returns what the operator would.
const switches = `package %s

import ("cmp"; "os"; "strconv")

type mutantInteger interface{ ~int|~int8|~int16|~int32|~int64|~uint|~uint8|~uint16|~uint32|~uint64|~uintptr }
type mutantNumber interface{ mutantInteger|~float32|~float64 }

var mutantID = func() int { n, _ := strconv.Atoi(os.Getenv("MUTANT")); return n }()

func mutantNot(id int, b bool) bool { return b != (mutantID == id) }
func mutantLSS[T cmp.Ordered](id int, a, b T) bool { if mutantID == id { return a <= b }; return a < b }
func mutantLEQ[T cmp.Ordered](id int, a, b T) bool { if mutantID == id { return a < b }; return a <= b }
func mutantGTR[T cmp.Ordered](id int, a, b T) bool { if mutantID == id { return a >= b }; return a > b }
func mutantGEQ[T cmp.Ordered](id int, a, b T) bool { if mutantID == id { return a > b }; return a >= b }
func mutantADD[T mutantNumber](id int, a, b T) T { if mutantID == id { return a - b }; return a + b }
func mutantSUB[T mutantNumber](id int, a, b T) T { if mutantID == id { return a + b }; return a - b }
func mutantMUL[T mutantNumber](id int, a, b T) T { if mutantID == id { return a / b }; return a * b }
func mutantQUO[T mutantNumber](id int, a, b T) T { if mutantID == id { return a * b }; return a / b }
func mutantREM[T mutantInteger](id int, a, b T) T { if mutantID == id { return a * b }; return a %% b }
func mutantNEG[T mutantNumber](id int, a T) T { if mutantID == id { return a }; return -a }
`

var (
	bounds     = map[token.Token]string{token.LSS: "mutantLSS", token.LEQ: "mutantLEQ", token.GTR: "mutantGTR", token.GEQ: "mutantGEQ"}
	arithmetic = map[token.Token]string{
		token.ADD: "mutantADD", token.SUB: "mutantSUB", token.MUL: "mutantMUL", token.QUO: "mutantQUO", token.REM: "mutantREM",
		token.ADD_ASSIGN: "mutantADD", token.SUB_ASSIGN: "mutantSUB", token.INC: "mutantADD", token.DEC: "mutantSUB",
	}
)

// goSubject builds the tests of a package, with all of its mutants, into a folder.
func goSubject(dir, folder string) (subject, error) {
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadSyntax}, "./"+dir)
	if err != nil {
		return subject{}, err
	}
	p := loaded[0]
	if len(p.Errors) > 0 {
		return subject{}, p.Errors[0]
	}
	c := &changer{pkg: p}
	replace := map[string]string{}
	write := func(original string, text []byte) error {
		replace[original] = filepath.Join(folder, filepath.Base(original))
		return os.WriteFile(replace[original], text, 0o600)
	}
	for i, file := range p.Syntax {
		file.Comments = nil // their places are no longer true; directives stay with their declarations
		astutil.Apply(file, nil, c.change)
		var text bytes.Buffer
		if err := errors.Join(format.Node(&text, p.Fset, file), write(p.CompiledGoFiles[i], text.Bytes())); err != nil {
			return subject{}, err
		}
	}
	where, err := filepath.Abs(dir)
	if err != nil {
		return subject{}, err
	}
	if err := write(filepath.Join(where, "zz_mutants.go"), fmt.Appendf(nil, switches, p.Name)); err != nil {
		return subject{}, err
	}
	overlay, err := overlayOf(folder, replace)
	if err != nil {
		return subject{}, err
	}
	binary := filepath.Join(folder, "tests")
	out, err := exec.Command("go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", binary, "./"+dir).CombinedOutput() // #nosec G204
	if err != nil {
		return subject{}, fmt.Errorf("%w: %s", err, out)
	}
	return subject{c.mutants, func(id int, limit time.Duration) bool {
		cmd := exec.Command(binary, "-test.short", "-test.failfast", "-test.timeout="+limit.String()) // #nosec G204
		cmd.Dir, cmd.Env = where, append(os.Environ(), "MUTANT="+strconv.Itoa(id))
		return cmd.Run() == nil
	}}, nil
}

// overlayOf writes what `go test -overlay` reads: which file stands for which.
func overlayOf(folder string, replace map[string]string) (name string, err error) {
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	name = filepath.Join(folder, "overlay.json")
	return name, os.WriteFile(name, text, 0o600)
}

// A changer puts the operators of a package behind switches.
type changer struct {
	pkg     *packages.Package
	mutants []mutant
}

// change replaces an expression or statement by the call of its switches. It runs after those of the operands.
func (c *changer) change(at *astutil.Cursor) bool {
	switch n := at.Node().(type) {
	case *ast.BinaryExpr:
		if !c.decides(n) {
			return true
		}
		if name := arithmetic[n.Op]; name != "" && c.is(n.X, types.IsNumeric) && c.is(n.Y, types.IsNumeric) {
			at.Replace(c.call(name, n.OpPos, n.Op.String(), n.X, n.Y))
		} else if n.Op.Precedence() == token.EQL.Precedence() {
			at.Replace(c.call("mutantNot", n.OpPos, "negated "+n.Op.String(), c.bound(n)))
		}
	case *ast.UnaryExpr:
		if n.Op == token.SUB && c.decides(n) && c.is(n.X, types.IsNumeric) {
			at.Replace(c.call("mutantNEG", n.OpPos, "-", n.X))
		}
	case *ast.IncDecStmt:
		if !c.is(n.X, types.IsNumeric) {
			return true
		}
		at.Replace(c.assign(n.X, n.TokPos, n.Tok, &ast.BasicLit{Kind: token.INT, Value: "1"}))
	case *ast.AssignStmt:
		if arithmetic[n.Tok] != "" && c.is(n.Lhs[0], types.IsNumeric) {
			at.Replace(c.assign(n.Lhs[0], n.TokPos, n.Tok, n.Rhs[0]))
		}
	}
	return true
}

// bound is a comparison whose bound moves by one where numbers or strings are ordered, and otherwise itself.
func (c *changer) bound(n *ast.BinaryExpr) ast.Expr {
	if name := bounds[n.Op]; name != "" && c.is(n.X, types.IsOrdered) && c.is(n.Y, types.IsOrdered) {
		return c.call(name, n.OpPos, "bound of "+n.Op.String(), n.X, n.Y)
	}
	return n
}

// assign is x = x + y for x += y and x++, so that x may be an element of a map.
func (c *changer) assign(x ast.Expr, at token.Pos, tok token.Token, y ast.Expr) ast.Stmt {
	return &ast.AssignStmt{Lhs: []ast.Expr{x}, Tok: token.ASSIGN, Rhs: []ast.Expr{c.call(arithmetic[tok], at, tok.String(), x, y)}}
}

// call is the call of a switch, which is a mutant.
func (c *changer) call(name string, at token.Pos, what string, operands ...ast.Expr) ast.Expr {
	p := c.pkg.Fset.Position(at)
	id := len(c.mutants) + 1
	c.mutants = append(c.mutants, mutant{id, fmt.Sprintf("%s:%d:%d", filepath.Base(p.Filename), p.Line, p.Column), what})
	return &ast.CallExpr{Fun: ast.NewIdent(name), Args: append([]ast.Expr{&ast.BasicLit{Kind: token.INT, Value: strconv.Itoa(id)}}, operands...)}
}

// decides reports whether an expression is worked out when the program runs, and is no bool of a type of its own.
func (c *changer) decides(e ast.Expr) bool {
	t := c.pkg.TypesInfo.Types[e]
	if t.Value != nil || t.Type == nil {
		return false
	}
	basic, ok := t.Type.Underlying().(*types.Basic)
	return ok && (basic.Info()&types.IsBoolean == 0 || t.Type == types.Type(basic))
}

// is reports whether an expression has a type of this kind. Operands that are switches by now have none of their own:
// their operator had the type that is asked for.
func (c *changer) is(e ast.Expr, kind types.BasicInfo) bool {
	t := c.pkg.TypesInfo.TypeOf(e)
	if call, ok := e.(*ast.CallExpr); ok && t == nil {
		return kind != 0 && len(call.Args) > 1
	}
	if t == nil {
		return false
	}
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Info()&kind != 0
}
