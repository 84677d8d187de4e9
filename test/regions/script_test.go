package regions

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/rulefile"
	"github.com/weirlimit/weir/test/kit/drive"
)

const head = "rule one { limit: 100/10s, algorithm: fixed_window, scope: global }\nfrom 0s to 20s eu offers 5/s of one\n"

// Every script can be read, and their rules fit in one world.
func TestScriptsCanBeRead(t *testing.T) {
	scripts, err := ReadAll("scripts/testdata")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Document(scripts); err != nil {
		t.Error(err)
	}
}

func TestParse(t *testing.T) {
	s, err := Parse("f", "name", head+`trip us 80ms # far
begin at a multiple of 10s
from 5s to 10s  us offers 2.5/s of no rule
at 7s heal ap
at 6s kill redis of one in us
expect admitted in eu from 5s to 10s: 5/s ± 10%; fails outside 1/s to 6/s
expect slowest request: at most 1s
`)
	if err != nil {
		t.Fatal(err)
	}
	if s.Trips["us"] != 80*time.Millisecond || s.Trips["eu"] != 0 || s.Align != 10*time.Second || s.Last() != 20*time.Second {
		t.Errorf("read %+v", s)
	}
	if o := s.Loads[1]; o != (Offer{5 * time.Second, 10 * time.Second, "us", 2.5, ""}) {
		t.Errorf("the second load is %+v", o)
	}
	if a := s.Events[0].Act; a.Text != "kill redis of one in us" || a.rule != "one" || a.region != "us" || s.Events[1].Act.region != "ap" {
		t.Errorf("events are %+v", s.Events)
	}
	e := s.Expect[0]
	if e.Promise.Least != 4.5 || e.Promise.Most != 5.5 || e.Accepted.Most != 6 || e.Figure.Region != "eu" || e.Figure.To != 10*time.Second {
		t.Errorf("the first expectation is %+v", e)
	}
	if e := s.Expect[1]; e.Promise != e.Accepted || !e.Promise.Holds(1) || e.Promise.Holds(1.1) {
		t.Errorf("the second expectation is %+v", e)
	}
}

// A mistake is reported with the place and with what is wrong.
func TestMistakes(t *testing.T) {
	for line, want := range map[string]string{
		"wait 5s":                                   "f:3: no line begins with",
		"trip 5":                                    "is not a time",
		"trip mars 5s":                              "is no region",
		"begin at 5s":                               "want begin at a multiple of TIME",
		"begin at a multiple of 10ms":               "not whole seconds",
		"from 5s to 2s eu offers 1/s of one":        "no time at all",
		"from 1s to 2s eu offers 1 of one":          "not a number per second",
		"from 1s to 2s eu offers 1/s of two":        `"two" is no rule of this script`,
		"from 1s to 2s mars offers 1/s of one":      "is no region",
		"at 5s paint eu":                            `nothing does "paint eu"`,
		"at 5s cut mars":                            "is no region",
		"at 5s apply limit 5/1m to two":             "is no rule of this script",
		"at 5s apply limit 5/1y to one":             "is not a limit",
		"two regions":                               "want two aggregators share a redis",
		"at 5s kill redis of one at the aggregator": "write two aggregators share a redis",
		"at 5s start redis at the aggregator":       "write two aggregators share a redis",
		"at 5s kill redis of two in eu":             "is no rule of this script",
		"rule two { limit: 5/1y }":                  "is not a limit",
		"regions eu":                                "regions: ",
		"regions { mars: 1 }":                       "is no region",
		"regions { eu: 0 }":                         "is out of range",
		"expect admitted under two: 5/s":            `"two" is no rule of this script`,
		"expect silence from 5s: 5s":                "write in REGION",
		"expect weather: 5":                         "is no figure",
		"expect admitted in eu from: 5/s":           "from is followed by nothing",
		"expect admitted: 5%":                       "not a number per second",
		"expect admitted: 5/s to 4/s":               "is empty",
		"expect admitted: about 5/s":                "is no bound",
		"expect admitted: 5/s; fails below 4":       "not a number per second",
		"expect admitted: 5/s; fails sometimes":     "does not state when to fail",
		"expect admitted of the limit: nearly 5":    "is no bound",
	} {
		if _, err := Parse("f", "name", head+line+"\n"); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "f:3: ") {
			t.Errorf("%s: %v, want f:3: and %q", line, err, want)
		}
	}
	if _, err := Parse("f", "name", head); err == nil {
		t.Error("a script that expects nothing is accepted")
	}
}

// What the redis of the aggregators loses can be said where there is one.
func TestTwoAggregators(t *testing.T) {
	s, err := Parse("f", "name", head+"two aggregators share a redis\nat 5s kill redis of one at the aggregator\nat 6s kill redis of the receipts in eu\nexpect admitted: 5/s\n")
	if err != nil || !s.Shared || s.Events[0].Act.rule != "one" || s.Events[1].Act.region != "eu" || s.Events[1].Act.rule != "" {
		t.Errorf("read %+v: %v", s, err)
	}
}

// Scripts are played in one world, and each may have weights of its own: equal ones without.
func TestWeights(t *testing.T) {
	s, err := Parse("f", "name", "regions { eu: 3, us: 2, ap: 1 }\n"+head+"expect admitted: 5/s\n")
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(s.Weights, map[string]int{"eu": 3, "us": 2, "ap": 1}) {
		t.Errorf("weights are %v", s.Weights)
	}
	text, err := Document([]*Script{s})
	if err != nil {
		t.Fatal(err)
	}
	for _, weights := range []map[string]int{s.Weights, equalWeights()} {
		if text, err = weighted(text, weights); err != nil {
			t.Fatal(err)
		}
		set, err := rulefile.Parse("f", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		for _, r := range set.Regions() {
			got[r.Name] = int(r.Weight)
		}
		if !maps.Equal(got, weights) {
			t.Errorf("weights are %v, want %v", got, weights)
		}
	}
}

// What is admitted is counted by windows and by regions. A request that is answered after
// the window of its sending is not counted against that window.
func TestFigures(t *testing.T) {
	s, err := Parse("f", "name", head+`from 0s to 20s us offers 5/s of one
expect admitted of the limit: 150%
expect admitted in us from 10s: 1/s
expect fullest window: 198%
expect 5xx or no answer: 5
expect slowest request: at most 1s; fails above 3s
expect requests slower than their timeout: 0; fails above 2
expect p99: 1s; fails never
`)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Unix(1_000, 0)
	eu, us := &drive.Result{Failed: 2, Slow: 1, Slowest: 2 * time.Second}, &drive.Result{Seconds: map[int64]drive.Second{1010: {Sent: 20, OK: 10}}}
	eu.Seconds = map[int64]drive.Second{1000: {Sent: 150, OK: 150}, 1009: {Sent: 90, OK: 50, Late: 2}, 1012: {Sent: 90, OK: 90, Late: 5}, 1020: {OK: 1}}
	eu.Status[503], eu.Status[429] = 3, 9
	p := &Played{Script: s, begin: begin, results: []*drive.Result{eu, us}}
	want := []Outcome{Holds, Holds, Holds, Holds, Short, Short, Fails} // without answers there is no p99
	for i, row := range p.Judge() {
		if row.Outcome != want[i] {
			t.Errorf("%+v, want %s", row, want[i])
		}
	}
}

// A play in which a client had no processor is void; one in which servers hang is not.
func TestVoid(t *testing.T) {
	for _, c := range []struct {
		slowest, stalled time.Duration
		want             bool
	}{{time.Minute, 900 * time.Millisecond, false}, {0, time.Second, true}} {
		p := &Played{results: []*drive.Result{{}, {Slowest: c.slowest, Stalled: c.stalled}}}
		if p.Void() != c.want {
			t.Errorf("stalled for %v: void is %v", c.stalled, !c.want)
		}
	}
}

// A promise has to hold in one play of several, and an aim in none.
func TestLacking(t *testing.T) {
	row := func(figure string, o Outcome, aim bool) Row { return Row{Figure: figure, Outcome: o, Aim: aim} }
	first := []Row{row("a", Holds, false), row("b", Short, false), row("c", Short, true), row("d", Short, false)}
	second := []Row{row("a", Short, false), row("b", Holds, false), row("c", Short, true), row("d", Fails, false)}
	for _, c := range []struct {
		plays [][]Row
		want  string
	}{{nil, ""}, {[][]Row{first}, "bd"}, {[][]Row{second}, "ad"}, {[][]Row{first, second}, "d"}, {[][]Row{second, first}, "d"}} {
		var got string
		for _, r := range Lacking(c.plays) {
			got += r.Figure
		}
		if got != c.want {
			t.Errorf("%d plays lack %q, want %q", len(c.plays), got, c.want)
		}
	}
}

// Where a script has two rules, a figure is of one of them, or of both together.
func TestFiguresOfARule(t *testing.T) {
	s, err := Parse("f", "name", head+`rule two { limit: 50/10s, algorithm: fixed_window, scope: global }
from 0s to 20s eu offers 5/s of two
expect fullest window under one: 60%
expect fullest window under two: 80%
expect admitted under two in eu: 2/s
expect admitted in eu: 5/s
`)
	if err != nil {
		t.Fatal(err)
	}
	p := &Played{Script: s, begin: time.Unix(1_000, 0), results: []*drive.Result{
		{Seconds: map[int64]drive.Second{1000: {OK: 60}}}, {Seconds: map[int64]drive.Second{1010: {OK: 40}}},
	}}
	for _, row := range p.Judge() {
		if row.Outcome != Holds {
			t.Errorf("%+v", row)
		}
	}
	if _, err := Parse("f", "name", head+"rule two { limit: 5/10s }\nexpect fullest window: 5%\n"); err == nil || !strings.Contains(err.Error(), "write under RULE") {
		t.Errorf("a percentage of two rules is %v", err)
	}
}

// A change is known as late as the last request that is refused. It is not measured where
// a load had not been refused before, or was refused to its end.
func TestChange(t *testing.T) {
	s, err := Parse("f", "name", head+`at 5s apply limit 50/10s to one
from 0s to 20s us offers 5/s of one
expect change from 5s: at most 1s; fails above 4s
`)
	if err != nil {
		t.Fatal(err)
	}
	if a := s.Events[0].Act; a.rule != "one" || a.limit != "50/10s" {
		t.Errorf("the action is %+v", a)
	}
	begin := time.Unix(1_000, 0)
	acted := begin.Add(5100 * time.Millisecond)
	for _, c := range []struct {
		eu, us time.Duration
		want   Outcome
	}{{time.Second, 300 * time.Millisecond, Holds}, {time.Second, 1100 * time.Millisecond, Short}, {-time.Second, time.Second, Fails}, {time.Second, 14 * time.Second, Fails}} {
		results := []*drive.Result{{Refused: acted.Add(c.eu)}, {Refused: acted.Add(c.us)}}
		p := &Played{Script: s, begin: begin, acted: map[time.Duration]time.Time{5 * time.Second: acted}, results: results}
		if row := p.Judge()[0]; row.Outcome != c.want {
			t.Errorf("eu %v and us %v after it: %+v, want %s", c.eu, c.us, row, c.want)
		}
	}
}

// Another limit of a rule changes nothing else of the rules.
func TestLimited(t *testing.T) {
	s, err := Parse("f", "name", head+"rule two { limit: 7/1m }\nexpect admitted: 5/s\n")
	if err != nil {
		t.Fatal(err)
	}
	before, err := Document([]*Script{s})
	if err != nil {
		t.Fatal(err)
	}
	after, err := limited(before, "one", "50/10s")
	if err != nil || after == before || strings.Replace(after, "50/10s", "100/10s", 1) != before {
		t.Errorf("%v:\n%s\nwas\n%s", err, after, before)
	}
	if equal, err := weighted(before, equalWeights()); err != nil || equal != before {
		t.Errorf("%v: with equal weights the rules are\n%s\nand were\n%s", err, equal, before)
	}
}

// Silence lasts until neither the aggregator nor a replica takes the region for cut off. It is not
// measured where one of them did not notice, or where it did not end.
func TestSilence(t *testing.T) {
	s, err := Parse("f", "name", head+"expect silence in eu from 10s to 14s: at most 2s; fails above 3s\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		before int   // how many take eu for cut off at 10 s
		after  []int // and each second from 11 s on
		want   Outcome
	}{
		{3, []int{3, 1, 0, 0}, Holds}, {3, []int{0, 0, 0, 0}, Holds}, {3, []int{3, 0, 2, 0}, Short},
		{2, []int{0, 0, 0, 0}, Fails}, {0, []int{0, 0, 0, 0}, Fails}, {3, []int{3, 3, 3, 3}, Fails}, {3, []int{0, 0, 0, 1, 0}, Fails},
	} {
		p := &Played{Script: s, marks: map[time.Duration]Mark{10 * time.Second: {Silent: map[string]int{"eu": c.before, "us": 3}}}}
		for i, n := range c.after {
			p.watched = append(p.watched, Mark{At: time.Duration(11+i) * time.Second, Silent: map[string]int{"eu": n, "us": 3}})
		}
		if row := p.Judge()[0]; row.Outcome != c.want {
			t.Errorf("%d at first and then %v: %+v, want %s", c.before, c.after, row, c.want)
		}
	}
}

// What was left of a window may be spent until a trip after its end. It does not count as too
// much of the next one, but more does, and so does the same after a window that was used up.
func TestCarriedOver(t *testing.T) {
	s, err := Parse("f", "name", strings.Replace(head, "5/s", "20/s", 1)+`trip eu 200ms
expect fullest window from 10s: at most 100%
expect admitted of the limit from 10s: at most 100%
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		before, after int64
		want          Outcome
	}{{80, 104, Holds}, {80, 105, Fails}, {97, 103, Holds}, {97, 104, Fails}, {100, 101, Fails}} {
		seconds := map[int64]drive.Second{1000: {OK: c.before}, 1010: {OK: c.after}}
		p := &Played{Script: s, begin: time.Unix(1_000, 0), results: []*drive.Result{{Seconds: seconds}}}
		for _, row := range p.Judge() {
			if row.Outcome != c.want {
				t.Errorf("%+v after %d of 100 in the window before, want %s", row, c.before, c.want)
			}
		}
	}
}
