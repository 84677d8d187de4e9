// Tally reads what `go test -json` writes and prints what a person wants to see of
// it: a line per package, the whole output of what failed, which tests were
// skipped, and last
//
//	failed: PACKAGE TEST, and the last messages of that test
//	N passed, N failed
//
// counting tests and their subtests, and a package that failed without any failing
// test (it does not build, it panicked, it ran out of time) as one. It exits with
// 1 when anything failed or when there was no test at all.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// event is a line of `go test -json`; see `go doc test2json`.
type event struct {
	Action     string
	Package    string
	ImportPath string // instead of Package, in what the compiler reports
	Test       string
	Output     string
}

// tally is the state of all packages that were named so far.
type tally struct {
	out            io.Writer
	passed, failed int
	skipped        []string
	left           map[string]int      // by target of make: tests that were skipped because they run there
	why            []string            // a line for each test that failed, its last messages, and so on
	running        map[string]bool     // packages begun and not ended
	failures       map[string]int      // failed tests by package
	blamed         map[string]bool     // tests of which a subtest failed
	output         map[string][]string // by package and test, until it passes
}

func main() {
	t := tally{out: os.Stdout, running: map[string]bool{}, left: map[string]int{}, failures: map[string]int{}, blamed: map[string]bool{}, output: map[string][]string{}}
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			t.line(line)
		}
		if err != nil {
			break
		}
	}
	if !t.close() {
		os.Exit(1)
	}
}

// line takes in one line; one that is no event is printed as it is.
func (t *tally) line(line []byte) {
	var e event
	if err := json.Unmarshal(line, &e); err != nil {
		fmt.Fprint(t.out, string(line))
		return
	}
	switch e.Action {
	case "build-output":
		fmt.Fprint(t.out, e.Output)
	case "start":
		t.running[e.Package] = true
	case "output":
		name := e.Package + " " + e.Test
		t.output[name] = append(t.output[name], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			t.endPackage(e)
		} else {
			t.endTest(e)
		}
	}
}

func (t *tally) endTest(e event) {
	name := e.Package + " " + e.Test
	switch e.Action {
	case "pass":
		t.passed++
	case "skip":
		why := t.reason(name)
		if target, elsewhere := strings.CutPrefix(why, "runs in make "); elsewhere {
			target, _, _ = strings.Cut(target, ":")
			t.left[target]++
		} else {
			t.skipped = append(t.skipped, name+": "+why)
		}
	case "fail":
		t.failed++
		t.failures[e.Package]++
		fmt.Fprint(t.out, strings.Join(t.output[name], ""))
		t.explain(name)
	}
	delete(t.output, name)
}

// reason is the last message of a test that was skipped.
func (t *tally) reason(name string) (why string) {
	for _, line := range t.output[name] {
		if at := message.FindString(line); at != "" {
			why = strings.TrimSpace(line[len(at):])
		}
	}
	return why
}

// mostMessages is how many messages of a failed test the closing lines repeat: the last one is why it gave up.
const mostMessages = 10

// message is the first line of what a test logs. What it logs of other programs is on the lines after it.
var message = regexp.MustCompile(`^ +[\w.]+\.go:\d+: `)

// explain keeps the last messages of a test that failed. A test that failed by its subtests has none that matters.
func (t *tally) explain(name string) {
	if t.blamed[name] {
		return
	}
	for at, c := range name {
		if c == '/' {
			t.blamed[name[:at]] = true
		}
	}
	var messages []string
	for _, line := range t.output[name] {
		if message.MatchString(line) {
			messages = append(messages, line)
		}
	}
	t.why = append(t.why, "failed: "+name+"\n")
	t.why = append(t.why, messages[max(0, len(messages)-mostMessages):]...)
}

// endPackage prints a package's ok line, or everything that it wrote besides its
// tests, which ends in its FAIL line (and begins with the seed of -shuffle).
// A test that never ended (a panic, a timeout) has left output behind: it is the cause.
func (t *tally) endPackage(e event) {
	delete(t.running, e.Package)
	own := e.Package + " "
	if e.Action == "fail" && t.failures[e.Package] == 0 {
		t.failed++
		for name, output := range t.output {
			if name != own && strings.HasPrefix(name, own) {
				fmt.Fprint(t.out, strings.Join(output, ""))
			}
		}
		t.why = append(t.why, "failed: "+e.Package+"\n")
	}
	for _, line := range t.output[own] {
		if e.Action == "fail" || strings.HasPrefix(line, "ok") {
			fmt.Fprint(t.out, line)
		}
	}
	delete(t.output, own)
}

// close prints the closing lines and reports whether all is well.
func (t *tally) close() bool {
	for name := range t.running {
		t.why = append(t.why, "failed: "+name+": its tests never ended\n")
		t.failed++
	}
	for _, skipped := range t.skipped {
		fmt.Fprintf(t.out, "skipped: %s\n", skipped)
	}
	for _, target := range slices.Sorted(maps.Keys(t.left)) {
		fmt.Fprintf(t.out, "left to make %s: %d\n", target, t.left[target])
	}
	fmt.Fprint(t.out, strings.Join(t.why, ""))
	fmt.Fprintf(t.out, "%d passed, %d failed\n", t.passed, t.failed)
	return t.failed == 0 && t.passed > 0
}
