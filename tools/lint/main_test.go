package main

import (
	"testing"

	"github.com/kisielk/errcheck/errcheck"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/analysistest"
)

// TestMuffle runs an analyzer on a package whose comments state what it is to find.
func TestMuffle(t *testing.T) {
	a := *errcheck.Analyzer
	muffle(&a)
	analysistest.Run(t, analysistest.TestData(), &a, "dropped")
}

func TestUnusedCode(t *testing.T) {
	analysistest.Run(t, analysistest.TestData(), unusedCode, "unused")
}

// TestAnalyzers is what vet checks at start: names, facts and requirements.
func TestAnalyzers(t *testing.T) {
	list := analyzers()
	if err := analysis.Validate(list); err != nil {
		t.Error(err)
	}
	if len(list) < 100 {
		t.Errorf("only %d analyzers: a group of staticcheck has been renamed", len(list))
	}
}
