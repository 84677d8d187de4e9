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
		script := rules + "loads: [{ to: 1s, region: eu, rate: 1, rule: local }]\nexpect: [{ figure: recovery }]\nevents: [{ do: " + text + " }]\n"
		if _, err := regions.Parse("demo", script); err != nil {
			t.Error(err)
		}
	}
	if _, err := rulefile.Parse("demo", []byte(rules)); err != nil {
		t.Error(err)
	}
}
