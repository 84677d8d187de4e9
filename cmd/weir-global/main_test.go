package main

import (
	"io"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/golden"
)

// Settings that weir-global rejects, and what it asks to change.
func TestLoad(t *testing.T) {
	golden.Lines(t, "testdata/settings.golden", func(args string) string {
		if _, err := load(strings.Fields(args), io.Discard); err != nil {
			return err.Error()
		}
		return "accepted"
	})
}
