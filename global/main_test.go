package main

import (
	"io"
	"strings"
	"testing"
)

// Settings that weir-global refuses, and what it asks to change.
func TestLoad(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string // in the error; empty: they are accepted
	}{
		{nil, "rules: is missing; give the path of a rules file"},
		{[]string{"--rules", "rules.yaml"}, ""},
		{[]string{"--rules", "rules.yaml", "--front", "on"}, "front: on is for a region"},
		{[]string{"--rules", "rules.yaml", "--replicas", "0"}, "replicas: "},
		{[]string{"--rules", "rules.yaml", "--global", "127.0.0.1:1"}, "unknown flag --global"},
	} {
		_, err := load(c.args, io.Discard)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}
