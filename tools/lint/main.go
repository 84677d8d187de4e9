// Lint is the project's list of analyzers as one vet tool. The Makefile runs it as
//
//	go vet -vettool=.tools/lint ./...
//
// beside plain go vet, so that results are cached by package as a build is.
// Generated files are left out. A finding that is wrong is silenced on its line
// or on the line above, with the reason:
//
//	//lint:ignore SA1019 there is no replacement before version 2
package main

import (
	"slices"
	"strings"

	"github.com/kisielk/errcheck/errcheck"
	"github.com/polyfloyd/go-errorlint/errorlint"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/nilness"
	"golang.org/x/tools/go/analysis/passes/unusedwrite"
	"golang.org/x/tools/go/analysis/unitchecker"
	"honnef.co/go/tools/analysis/lint"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
)

// single are the analyzers that come one by one.
var single = []*analysis.Analyzer{
	errcheck.Analyzer,       // an error is handled or assigned to _
	errorlint.NewAnalyzer(), // errors, which may be wrapped, are compared by errors.Is and As
	nilness.Analyzer,        // nothing nil is dereferenced, no check for nil is in vain
	unusedwrite.Analyzer,    // nothing is written to a copy that nobody reads
	unusedCode,              // nothing is kept that nobody uses
}

// style are the wanted checks of staticcheck's style group; the others are
// matters of taste.
var style = []string{
	"ST1005", // error strings end up inside other sentences
	"ST1008", // an error is the last result
	"ST1011", // a time.Duration has its unit in its type, not in its name
	"ST1016", // one name per receiver
	"ST1017", // no Yoda conditions
	"ST1019", // nothing is imported twice
	"ST1020", // a doc comment begins with the name of its function,
	"ST1021", // of its type,
	"ST1022", // of its variable or constant
}

// mayFail are functions whose error may be dropped without a word, beside those of
// fmt.Print and in-memory buffers, which errcheck leaves out by itself.
var mayFail = []string{
	"fmt.Fprint", "fmt.Fprintf", "fmt.Fprintln", // messages: an error has nobody to report it to
	"(net/http.ResponseWriter).Write",          // the client is gone
	"(io.ReadCloser).Close",                    // it was only read
	"(net.Conn).Close", "(net.Listener).Close", // the peer gets the end either way
}

func main() {
	errcheck.DefaultExcludedSymbols = append(errcheck.DefaultExcludedSymbols, mayFail...)
	list := analyzers()
	for _, a := range list {
		muffle(a)
	}
	unitchecker.Main(list...)
}

// analyzers is the list.
func analyzers() []*analysis.Analyzer {
	return slices.Concat(single,
		pick(staticcheck.Analyzers, "SA"), // bugs, and misuse of the standard library
		pick(simple.Analyzers, "S1"),      // code that can be simpler
		pick(stylecheck.Analyzers, style...),
	)
}

// pick returns the analyzers whose name begins with one of prefixes.
func pick(from []*lint.Analyzer, prefixes ...string) []*analysis.Analyzer {
	var list []*analysis.Analyzer
	for _, a := range from {
		if slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(a.Analyzer.Name, p) }) {
			list = append(list, a.Analyzer)
		}
	}
	return list
}
