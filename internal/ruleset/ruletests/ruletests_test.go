package ruletests_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/ruletests"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
)

// suite reads rules and tests.
func suite(t *testing.T, text string) *ruletests.Suite {
	t.Helper()
	s, err := ruletests.Read("rules.yaml", []rulefile.File{{Name: "rules.yaml", Data: []byte(text)}})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return s
}

// differs runs the last test of a suite, and returns how its first step differs: "" or STEP: -EXPECTED +GOT.
func differs(t *testing.T, s *ruletests.Suite) string {
	t.Helper()
	failure := fatal.Get(s.Run(t.Context(), &s.Tests[len(s.Tests)-1], nil))(t)
	if failure == nil {
		return ""
	}
	text := fmt.Sprint(failure.Step, ":")
	for i, want := range failure.Expected {
		text += " -" + want + " +" + failure.Got[i]
	}
	return strings.TrimSuffix(text+" "+failure.Note, " ")
}

// TestOutcomes: each field of a test does what it says, and an expectation that does not hold is told apart from what happened.
func TestOutcomes(t *testing.T) {
	passes(t, "testdata/outcomes.yaml")
	const drained = "{ repeat: 2x, expect: allowed }, "
	for steps, want := range map[string]string{
		drained + "{ expect: allowed }": "2: -allowed +denied by login, key 192.0.2.1",
		"{ request: GET /full, repeat: 2x, lasts: 1s, expect: allowed }, { request: GET /full, expect: allowed }": "2: -allowed +denied by full",
		"{ expect: denied }":                                                     "1: -denied +allowed by login, key 192.0.2.1, remaining 1",
		"{ expect: { allowed: api } }":                                           "1: -allowed by api +allowed by login, key 192.0.2.1, remaining 1",
		"{ expect: { allowed: none } }":                                          "1: -allowed by no rule +allowed by login, key 192.0.2.1, remaining 1",
		"{ request: GET /, expect: { allowed: login } }":                         "1: -allowed by login +allowed by no rule",
		drained + "{ expect: { denied: api } }":                                  "2: -denied by api +denied by login, key 192.0.2.1",
		"{ repeat: 10x, expect: allowed }":                                       "1: -allowed +denied by login, key 192.0.2.1 8 of 10 requests differ, the first is number 3",
		"{ repeat: 10x, expect: { count: { allowed: 3, denied: 7 } } }":          "1: -allowed 3 +allowed 2 -denied 7 +denied 8",
		"{ repeat: every 10s for 1m, expect: { count: { denied: 0 } } }":         "1: -denied 0 +denied 2",
		drained + "{ at: 29s, expect: allowed }":                                 "2: -allowed +denied by login, key 192.0.2.1",
		drained + "{ expect: { key: 192.0.2.2 } }":                               "2: -key 192.0.2.2 +key 192.0.2.1",
		drained + "{ expect: { remaining: 1 } }":                                 "2: -remaining 1 +remaining 0",
		drained + "{ expect: { status: 503, retry_after: 29s } }":                "2: -retry_after 29s +retry_after 30s -status 503 +status 429",
		drained + "{ expect: { retry_after: null } }":                            "2: -retry_after null +retry_after 30s",
		drained + "{ expect: { failed: true } }":                                 "2: -failed true +failed false",
		drained + "{ expect: { override: gold } }":                               "2: -override gold +override null",
		"{ request: { headers: { x-tier: gold } }, expect: { override: null } }": "1: -override null +override gold",
		drained + `{ expect: { headers: { ratelimit: null } } }`:                 `2: -header ratelimit null +header ratelimit "login";r=0;t=30`,
		drained + `{ expect: { headers: { x-none: a } } }`:                       `2: -header x-none a +header x-none null`,
		"{ request: GET /api, expect: { key: [192.0.2.1, PUT] } }":               "1: -key 192.0.2.1|PUT +key client_ip 192.0.2.1|GET",
		"{ request: GET /api/trial, expect: { shadow: [trial] } }":               "1: -shadow [trial] +shadow []",
	} {
		text := string(golden.Content(t, "testdata/outcomes.yaml")) + `
  - name: wrong
    start: 2026-01-31T23:59:30Z
    request: { method: POST, url: /login, client: 192.0.2.1, headers: { X-Tier: silver } }
    steps: [` + steps + "]\n"
		if got := differs(t, suite(t, text)); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", steps, got, want)
		}
	}
}

// passes runs the tests of a file, which hold.
func passes(t *testing.T, file string) {
	t.Helper()
	s := suite(t, string(golden.Content(t, file)))
	for i := range s.Tests {
		if failure := fatal.Get(s.Run(t.Context(), &s.Tests[i], nil))(t); failure != nil {
			t.Errorf("%s: %+v", s.Tests[i].Name, failure)
		}
	}
}

// TestShed: a request is in flight by a shed rule for as long as it lasts.
func TestShed(t *testing.T) { passes(t, "testdata/shed.yaml") }

// TestCoverageOfClasses: classes of a rule that sheds load are parts of it, which a request without the key reaches.
func TestCoverageOfClasses(t *testing.T) {
	s := suite(t, `rules:
  - { name: api, match: { path: { prefix: /a } }, key: [], limit: 2/1m }
  - name: overload
    key: [{ header: x-user }]
    shed: { capacity: 9, classes: [{ class: critical, match: { path: /a/b } }, { class: low, match: { path: /c } }] }
tests:
  - { name: a, steps: [{ request: GET /a/b, expect: { allowed: api } }] }
`)
	c := s.Coverage()
	if failure, err := s.Run(t.Context(), &s.Tests[0], c); failure != nil || err != nil {
		t.Fatal(failure, err)
	}
	if places, all := c.Unreached(); all != 4 || len(places) != 1 || places[0].Path != "rules[1].shed.classes[1]" {
		t.Errorf("%v of %d", places, all)
	}
}

// TestFaults: three regions share a limit, and each rule does what its on_failure states while the region or the aggregator
// does not answer.
func TestFaults(t *testing.T) { passes(t, "testdata/faults.yaml") }

// TestMistakes: a file has one message for each mistake, with its line and what to write instead.
func TestMistakes(t *testing.T) {
	text := golden.Content(t, "testdata/bad.yaml")
	_, err := rulefile.Read("bad.yaml", text, ruletests.Check)
	var mistakes strict.Errors
	if !errors.As(err, &mistakes) {
		t.Fatal(err)
	}
	found := map[int]int{}
	for _, m := range mistakes {
		found[m.Pos.Line]++
	}
	for i, line := range strings.Split(string(text), "\n") {
		if want := strings.HasSuffix(line, " #"); want != (found[i+1] > 0) || found[i+1] > 1 {
			t.Errorf("line %d has %d messages: %s", i+1, found[i+1], line)
		}
	}
	golden.Same(t, "testdata/bad.golden", err.Error()+"\n")
}

// TestFiles: a directory has the tests of all its files, each with its own place, and a file may have only tests.
func TestFiles(t *testing.T) {
	files := []rulefile.File{{Name: "d/a.yaml", Data: []byte("rules: [{ name: one, key: [], limit: 1/1m }]\ntests: [{ name: a, steps: [{ request: GET /, expect: allowed }] }]\n")},
		{Name: "d/b.yaml", Data: []byte("tests:\n- { name: b, steps: [{ request: GET /, expect: denied }] }\n")}}
	s := fatal.Get(ruletests.Read("d", files))(t)
	if last := s.Tests[1]; len(s.Tests) != 2 || last.File != "d/b.yaml" || last.Line != 2 || differs(t, s) == "" {
		t.Errorf("%+v", s.Tests)
	}
	files[1].Data = []byte("tests:\n- { name: a, steps: [{ request: GET /, expect: { denied: two } }] }\n")
	const want = "d/b.yaml:2:11: tests[0].name: \"a\" is taken; write another name than tests[0] (d/a.yaml:2)\n" +
		"d/b.yaml:2:58: tests[0].steps[0].expect.denied: \"two\" is unknown; write one"
	if _, err := ruletests.Read("d", files); err == nil || err.Error() != want {
		t.Error(err)
	}
}

// TestNames: each step has all names of its test, so they are few.
func TestNames(t *testing.T) {
	var headers []string
	for i := range 101 {
		headers = append(headers, fmt.Sprintf("x-%d: a", i))
	}
	text := "rules: [{ name: one, key: [], limit: 1/1m }]\ntests: [{ name: a, request: { url: /, headers: { " + strings.Join(headers, ", ") + " } }, steps: [{ expect: allowed }] }]\n"
	if _, err := ruletests.Read("a.yaml", []rulefile.File{{Name: "a.yaml", Data: []byte(text)}}); err == nil || !strings.Contains(err.Error(), "has 101 names; write at most 100") {
		t.Error(err)
	}
}
