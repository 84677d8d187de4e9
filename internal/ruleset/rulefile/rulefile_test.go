package rulefile_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
)

// TestBad holds the message of every mistake to the letter.
func TestBad(t *testing.T) {
	for _, file := range golden.Files(t, "testdata/bad_*.yaml") {
		set, err := rulefile.Parse(filepath.Base(file), golden.Content(t, file))
		var mistakes strict.Errors
		if set != nil || !errors.As(err, &mistakes) || len(mistakes) == 0 {
			t.Fatalf("%s: set %v, error %v: want nothing but mistakes", file, set, err)
		}
		golden.Same(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
	}
}

// TestGood reads good files and holds their compiled form to the letter: a difference there gives every edge new rules.
func TestGood(t *testing.T) {
	for _, file := range golden.Files(t, "testdata/good_*") {
		if filepath.Ext(file) == ".golden" {
			continue
		}
		set := fatal.Get(rulefile.Parse(file, golden.Content(t, file)))(t)
		golden.Same(t, file+".golden", set.Version+"\n"+string(set.Encode())+"\n") // which package read takes, too
	}
}
