package main

import (
	"golang.org/x/tools/go/analysis"
	"honnef.co/go/tools/unused"
)

// unusedCode reports what staticcheck finds to be unused; on its own that
// analyzer only hands the list on. A package and its tests are looked at
// together, so what only a test uses counts as used.
var unusedCode = &analysis.Analyzer{
	Name:     "U1000",
	Doc:      "report unused code",
	Requires: []*analysis.Analyzer{unused.Analyzer.Analyzer},
	Run: func(pass *analysis.Pass) (any, error) {
		result := pass.ResultOf[unused.Analyzer.Analyzer].(unused.Result)
		for _, o := range result.Unused {
			if pos := position(pass, o.Position); pos.IsValid() {
				pass.Reportf(pos, "%s %s is unused", o.Kind, o.Name)
			}
		}
		return nil, nil
	},
}
