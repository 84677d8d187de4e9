//go:build linux

package main

import (
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/regions"
)

// Each step of the demo is something that a world or a shell does, and its rules are rules.
func TestSteps(t *testing.T) {
	for _, s := range steps {
		for _, text := range s.commands {
			script := rules + "loads: [{ to: 1s, region: eu, rate: 1, rule: local }]\nexpect: [{ figure: recovery }]\nevents: [{ do: " + text + " }]\n"
			if _, err := regions.Parse("demo", script); err != nil && !strings.HasPrefix(text, "$ ") {
				t.Error(err)
			}
		}
	}
	if _, err := rulefile.Parse("demo", []byte(rules)); err != nil {
		t.Error(err)
	}
}
