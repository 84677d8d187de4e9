//go:build linux

package main

import (
	"bytes"
	"testing"
)

func TestUnknownBenchmark(t *testing.T) {
	for _, args := range [][]string{nil, {"redis"}, {"edge", "-no-such-flag"}, {"region", "-no-such-flag"}} {
		if err := run(t.Context(), args, &bytes.Buffer{}, &bytes.Buffer{}); err == nil {
			t.Errorf("run(%q): want an error", args)
		}
	}
}
