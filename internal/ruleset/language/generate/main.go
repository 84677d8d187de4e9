// Command generate writes what is generated from the description of the rule language: the JSON Schema for editors, and
// the reference.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/weirlimit/weir/internal/ruleset/language"
)

//go:generate go run . ../../../..

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: generate ROOT")
		os.Exit(2)
	}
	err := errors.Join(
		os.WriteFile(filepath.Join(os.Args[1], language.SchemaPath), language.Schema(), 0o644),
		os.WriteFile(filepath.Join(os.Args[1], language.ReferencePath), language.Reference(), 0o644))
	if err != nil {
		fmt.Fprintf(os.Stderr, "generate: %v\n", err)
		os.Exit(1)
	}
}
