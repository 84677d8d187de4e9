package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/envoy/overlay"
	"github.com/weirlimit/weir/test/kit/fatal"
)

const root = "../.."

// What is checked in is that of the files in envoy/.
func TestGenerated(t *testing.T) {
	for _, b := range bootstraps {
		for path, want := range map[string][]byte{b.path: fatal.Get(b.render(root))(t), b.native: fatal.Get(b.render(root, overlay.NativeBootstrap))(t)} {
			if have, err := os.ReadFile(filepath.Join(root, path)); err != nil || string(have) != string(want) {
				t.Errorf("%s is out of date, run go generate ./envoy/generate (%v)", path, err)
			}
			if _, err := overlay.Parse(path, string(want)); err != nil {
				t.Error(err)
			}
		}
	}
}

// Each condition of a template stands before what it is for, and ends behind that: nothing else is
// optional by mistake.
func TestOptional(t *testing.T) {
	for _, b := range bootstraps {
		text := fatal.Get(b.render(root))(t)
		conditions := 0
		for lines, open := strings.Split(string(text), "\n"), ""; len(lines) > 0; lines = lines[1:] {
			line := strings.TrimSpace(lines[0])
			indent := len(lines[0]) - len(line)
			switch {
			case strings.HasPrefix(line, "# %{ if"):
				open, conditions = strings.Repeat(" ", indent), conditions+1
			case strings.HasPrefix(line, "# %{ endif"):
				open = ""
			case open != "" && indent < len(open):
				t.Errorf("%s: %q is in a condition of something else", b.path, line)
			}
		}
		if conditions != len(b.optional) {
			t.Errorf("%s has %d conditions, want %d: something has another name in envoy/", b.path, conditions, len(b.optional))
		}
	}
}
