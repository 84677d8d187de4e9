//go:build linux

package main

import (
	"testing"

	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/regions"
)

// What the demo asks people to type is something that a world does, and its rules are rules.
func TestTries(t *testing.T) {
	for _, text := range tries {
		if err := regions.CanDo(text); err != nil {
			t.Error(err)
		}
	}
	if err := regions.CanDo("paint eu"); err == nil {
		t.Error("anything can be done")
	}
	if _, err := rulefile.Parse("demo", []byte(rules)); err != nil {
		t.Error(err)
	}
}
