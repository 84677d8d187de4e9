package main

import (
	"strings"
	"testing"
)

func TestTally(t *testing.T) {
	cases := []struct {
		name    string
		lines   string
		well    bool
		closing string
		shows   string
	}{
		{"passes and a subtest", `{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Test":"TestA","Output":"noise\n"}
{"Action":"pass","Package":"p","Test":"TestA/sub"}
{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Output":"noise of -shuffle\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p"}`, true, "2 passed, 0 failed", "ok  \tp"},
		{"a failing test", `{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Test":"TestA","Output":"got 1, want 2\n"}
{"Action":"fail","Package":"p","Test":"TestA"}
{"Action":"pass","Package":"p","Test":"TestB"}
{"Action":"fail","Package":"p"}`, false, "1 passed, 1 failed", "got 1, want 2"},
		{"why a subtest failed, last", `{"Action":"output","Package":"p","Test":"TestA/sub","Output":"    a_test.go:7: got 1, want 2\n"}
{"Action":"output","Package":"p","Test":"TestA/sub","Output":"what a program wrote\n"}
{"Action":"fail","Package":"p","Test":"TestA/sub"}
{"Action":"output","Package":"p","Test":"TestA","Output":"    process.go:52: end of its log\n"}
{"Action":"fail","Package":"p","Test":"TestA"}`, false, "failed: p TestA/sub\n    a_test.go:7: got 1, want 2\n0 passed, 2 failed", ""},
		{"a package that does not build", `{"ImportPath":"p","Action":"build-output","Output":"p.go:1: undefined: x\n"}
{"ImportPath":"p","Action":"build-fail"}
{"Action":"start","Package":"p"}
{"Action":"fail","Package":"p","FailedBuild":"p"}
{"Action":"pass","Package":"q","Test":"TestA"}`, false, "1 passed, 1 failed", "undefined: x"},
		{"a panic outside of any ended test", `{"Action":"start","Package":"p"}
{"Action":"output","Package":"p","Test":"TestA","Output":"panic: boom\n"}
{"Action":"fail","Package":"p"}`, false, "0 passed, 1 failed", "panic: boom"},
		{"a package that was cut off", `{"Action":"start","Package":"p"}
{"Action":"pass","Package":"p","Test":"TestA"}`, false, "1 passed, 1 failed", "never ended"},
		{"a skipped test", `{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:7: needs root\n"}
{"Action":"skip","Package":"p","Test":"TestB"}`, true, "1 passed, 0 failed", "skipped: p TestB: needs root\n"},
		{"a long test", `{"Action":"pass","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestB","Output":"    b_test.go:7: runs in make test-long\n"}
{"Action":"skip","Package":"p","Test":"TestB"}`, true, "left to make test-long: 1\n1 passed, 0 failed", ""},
		{"nothing", "", false, "0 passed, 0 failed", ""},
		{"what is not JSON", "go: cannot find main module\n", false, "0 passed, 0 failed", "cannot find"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			tally := tally{out: &out, running: map[string]bool{}, left: map[string]int{}, failures: map[string]int{}, blamed: map[string]bool{}, output: map[string][]string{}}
			for line := range strings.Lines(c.lines) {
				tally.line([]byte(line))
			}
			if well := tally.close(); well != c.well {
				t.Errorf("close answered %v", well)
			}
			if !strings.HasSuffix(out.String(), c.closing+"\n") {
				t.Errorf("closes with %q, want %q", out.String(), c.closing)
			}
			if !strings.Contains(out.String(), c.shows) {
				t.Errorf("does not show %q:\n%s", c.shows, out.String())
			}
			if strings.Contains(out.String(), "noise") {
				t.Errorf("shows the output of a test that passed:\n%s", out.String())
			}
		})
	}
}
