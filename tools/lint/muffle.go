package main

import (
	"go/ast"
	"go/token"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// muffle makes a report nothing in generated files and nothing that the source
// asks to ignore. An ignore without a reason is itself a finding.
func muffle(a *analysis.Analyzer) {
	run := a.Run
	a.Run = func(pass *analysis.Pass) (any, error) {
		quiet := map[string]map[int]bool{} // by file and line
		for _, f := range pass.Files {
			name := pass.Fset.File(f.FileStart).Name()
			quiet[name] = ignored(pass, f)
		}
		muffled := *pass
		muffled.Report = func(d analysis.Diagnostic) {
			at := pass.Fset.PositionFor(d.Pos, false)
			if lines := quiet[at.Filename]; !lines[0] && !lines[at.Line] {
				pass.Report(d)
			}
		}
		return run(&muffled)
	}
}

// ignored returns the lines of a file on which pass.Analyzer keeps quiet; line 0
// stands for the whole file.
func ignored(pass *analysis.Pass, f *ast.File) map[int]bool {
	lines := map[int]bool{0: ast.IsGenerated(f)}
	for _, group := range f.Comments {
		for _, c := range group.List {
			checks, found := strings.CutPrefix(c.Text, "//lint:ignore ")
			if !found {
				continue
			}
			checks, reason, _ := strings.Cut(checks, " ")
			for check := range strings.SplitSeq(checks, ",") {
				if check != pass.Analyzer.Name {
					continue
				}
				if strings.TrimSpace(reason) == "" {
					pass.Reportf(c.Pos(), "ignores %s without a reason", check)
				}
				line := pass.Fset.PositionFor(c.Pos(), false).Line
				lines[line], lines[line+1] = true, true
			}
		}
	}
	return lines
}

// position finds a position in the files of a pass, token.NoPos if it is in none.
func position(pass *analysis.Pass, at token.Position) token.Pos {
	for _, f := range pass.Files {
		if file := pass.Fset.File(f.FileStart); file.Name() == at.Filename && at.Offset <= file.Size() {
			return file.Pos(at.Offset)
		}
	}
	return token.NoPos
}
