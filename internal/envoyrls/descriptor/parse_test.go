package descriptor_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/envoyrls/descriptor"
	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
)

// parse reads a configuration of one file that has no mistake.
func parse(t testing.TB, text string) *descriptor.Config {
	t.Helper()
	return fatal.Get(descriptor.Parse([]descriptor.File{{Name: "f.yaml", Data: []byte(text)}}, descriptor.Options{}))(t)
}

// TestBad holds the message of every mistake to the letter.
func TestBad(t *testing.T) {
	for _, file := range golden.Files(t, "testdata/bad_*.yaml") {
		c, err := descriptor.Parse([]descriptor.File{{Name: filepath.Base(file), Data: golden.Content(t, file)}}, descriptor.Options{})
		var mistakes strict.Errors
		if c != nil || !errors.As(err, &mistakes) || len(mistakes) == 0 {
			t.Fatalf("%s: config %v, error %v: want nothing but mistakes", file, c, err)
		}
		golden.Same(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
	}
}

// TestWarnings holds every warning to the letter.
func TestWarnings(t *testing.T) {
	for _, file := range golden.Files(t, "testdata/warn_*.yaml") {
		c := fatal.Get(descriptor.Parse([]descriptor.File{{Name: filepath.Base(file), Data: golden.Content(t, file)}}, descriptor.Options{}))(t)
		golden.Same(t, strings.TrimSuffix(file, ".yaml")+".txt", c.Warnings().Error()+"\n"+dump(c))
	}
}

// dump writes down everything that a configuration has.
func dump(c *descriptor.Config) string {
	var b strings.Builder
	for _, domain := range c.Domains() {
		fmt.Fprintf(&b, "domain %s\n", domain)
	}
	for r := range c.Rules() {
		fmt.Fprintf(&b, "%s:%d: %s\n    ", filepath.ToSlash(r.File), r.Line, r.Path)
		if r.Unlimited {
			b.WriteString("unlimited")
		} else {
			fmt.Fprintf(&b, "%d per %s", r.RequestsPerUnit, r.Unit)
		}
		fmt.Fprintf(&b, ", shadow %t, quota %t, detailed %t, value %t, share %t", r.Shadow, r.Quota, r.DetailedMetric, r.ValueToMetric, r.SharesThreshold())
		fmt.Fprintf(&b, ", name %q replaces %q\n", r.Name, r.Replaces)
		if r.Metadata != nil {
			text, _ := json.Marshal(r.Metadata)
			fmt.Fprintf(&b, "    metadata %s\n", text)
		}
	}
	return b.String()
}

// TestExample reads a directory as an operator has it, with every field.
func TestExample(t *testing.T) {
	c := fatal.Get(descriptor.Load(filepath.Join("testdata", "example"), descriptor.Options{}))(t)
	if w := c.Warnings(); len(w) > 0 {
		t.Errorf("warnings:\n%s", w.Error())
	}
	golden.Same(t, filepath.Join("testdata", "example.golden"), c.Version()+"\n"+dump(c))
}

// TestLenient reads what YAML 1.1 allows as envoyproxy/ratelimit does.
func TestLenient(t *testing.T) {
	golden.Same(t, "testdata/lenient.golden", dump(parse(t, string(golden.Content(t, "testdata/lenient.yaml")))))
}
