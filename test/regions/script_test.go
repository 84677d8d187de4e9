package regions

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/fatal"
)

const head = "rule one { limit: 100/10s, algorithm: fixed_window, scope: global }\nfrom 0s to 20s eu offers 5/s of one\n"

// Every script can be read, and its rules are rules.
func TestScriptsCanBeRead(t *testing.T) {
	scripts := fatal.Get(ReadAll("scripts/testdata"))(t)
	for _, s := range scripts {
		if _, err := s.Document(); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
}

func TestParse(t *testing.T) {
	s := fatal.Get(Parse("f", "name", head+`trip 80ms # far
begin at a multiple of 10s
from 5s to 10s  us offers 2.5/s of one
at 7s heal ap
at 6s kill redis of one in us
expect admitted in eu from 5s to 10s: 5/s ± 10%
always slowest request: at most 1s
`))(t)
	if s.Trip != 80*time.Millisecond || s.Align != 10*time.Second || s.Last() != 20*time.Second {
		t.Errorf("read %+v", s)
	}
	if o := s.Loads[1]; o != (Offer{5 * time.Second, 10 * time.Second, "us", 2.5, "one"}) {
		t.Errorf("the second load is %+v", o)
	}
	if a := s.Events[0].Act; a.Text != "kill redis of one in us" || a.rule != "one" || a.region != "us" || s.Events[1].Act.region != "ap" {
		t.Errorf("events are %+v", s.Events)
	}
	e := s.Expect[0]
	if e.Kind != Expect || e.Bound.Least != 4.5 || e.Bound.Most != 5.5 || e.Figure.Region != "eu" || e.Figure.To != 10*time.Second {
		t.Errorf("the first expectation is %+v", e)
	}
	if e := s.Expect[1]; e.Kind != Always || !e.Bound.Holds(1) || e.Bound.Holds(1.1) {
		t.Errorf("the second expectation is %+v", e)
	}
}

// A mistake is reported with the place and the reason.
func TestMistakes(t *testing.T) {
	for line, want := range map[string]string{
		"wait 5s":                              "f:3: no line begins with",
		"trip 5":                               "is not a time",
		"begin at 5s":                          "want begin at a multiple of TIME",
		"begin at a multiple of 10ms":          "not whole seconds",
		"begin with 1h left of 1m":             "is not less than",
		"from 5s to 2s eu offers 1/s of one":   "no time at all",
		"from 1s to 2s eu offers 1 of one":     "not a number per second",
		"from 1s to 2s eu offers 1/s of two":   `"two" is no rule of this script`,
		"from 1s to 2s mars offers 1/s of one": "is no region",
		"at 5s paint eu":                       `nothing does "paint eu"`,
		"at 5s cut mars":                       "is no region",
		"at 5s apply limit 5/1m to two":        "is no rule of this script",
		"at 5s apply limit 5/1y to one":        "is not a limit",
		"rule two { limit: 5/1y }":             "is not a limit",
		"regions eu":                           "regions: ",
		"regions { mars: 1 }":                  "is no region",
		"regions { eu: 0 }":                    "is out of range",
		"expect weather: 5":                    "is no figure",
		"expect admitted under two: 5/s":       `"two" is no rule of this script`,
		"expect admitted in eu from: 5/s":      "from is followed by nothing",
		"expect admitted: 5%":                  "not a number per second",
		"expect admitted: 5/s to 4/s":          "is empty",
		"expect admitted: about 5/s":           "is no bound",
		"always admitted: at least 5/s":        "write at most, or expect",
	} {
		if _, err := Parse("f", "name", head+line+"\n"); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "f:3: ") {
			t.Errorf("%s: %v, want f:3: and %q", line, err, want)
		}
	}
	if _, err := Parse("f", "name", head); err == nil {
		t.Error("a script that expects nothing is accepted")
	}
}

// What is admitted is counted by windows and by regions. A request that is answered after
// the window of its sending is not counted against that window, and one of a later second is.
func TestFigures(t *testing.T) {
	s := fatal.Get(Parse("f", "name", head+`from 0s to 20s us offers 5/s of one
expect admitted of the limit: at least 150%
expect admitted in us from 10s: 1/s
always fullest window: at most 198%
always fullest window: at most 197%
always fullest window from 10s: at most 95%
expect emptiest window in us from 10s: at least 10%
expect emptiest window in us: at least 1%
always 5xx or no answer: at most 5
expect slowest request: at most 1s
expect requests slower than their timeout: 0
`))(t)
	begin := time.Unix(1_000, 0)
	eu, us := &drive.Result{Failed: 2, Slow: 1, Slowest: 2 * time.Second}, &drive.Result{Seconds: map[int64]drive.Second{1010: {Sent: 20, OK: 10}}}
	eu.Seconds = map[int64]drive.Second{
		1000: {Sent: 150, OK: 150}, 1008: {Sent: 1, OK: 1, Later: map[int64]int64{1010: 1}},
		1009: {Sent: 90, OK: 50, Later: map[int64]int64{1010: 2}}, 1012: {Sent: 90, OK: 85, Later: map[int64]int64{1013: 5}}, 1020: {OK: 1}}
	eu.Status[503], eu.Status[429] = 3, 9
	p := &Played{Script: s, begin: begin, results: []*drive.Result{eu, us}}
	want := []Outcome{Short, Holds, Holds, Fails, Holds, Holds, Short, Holds, Short, Short}
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

// The first play decides if all of it is as expected. Otherwise two others have to be, each as a whole.
func TestDecide(t *testing.T) {
	row := func(k Kind, o Outcome) Row { return Row{Kind: k, Outcome: o} }
	whole := []Row{row(Always, Holds), row(Expect, Holds), row(Expect, Holds)}
	late, uneven := []Row{row(Expect, Short), row(Expect, Holds)}, []Row{row(Expect, Holds), row(Expect, Short)}
	for _, c := range []struct {
		plays [][]Row
		want  Verdict
	}{
		{nil, Open}, {[][]Row{whole}, Passed}, {[][]Row{late}, Open}, {[][]Row{late, whole}, Open},
		{[][]Row{late, uneven}, Failed}, {[][]Row{late, whole, whole}, Passed}, {[][]Row{late, whole, uneven}, Failed},
	} {
		if got := Decide(c.plays); got != c.want {
			t.Errorf("%+v: verdict %d, want %d", c.plays, got, c.want)
		}
	}
}

// What PoPs admit by themselves is counted apart: it does not count as too much of a window or of a bucket.
func TestAdmittedByPoPsAlone(t *testing.T) {
	s := fatal.Get(Parse("f", "name", head+`rule two { limit: 5/1s, algorithm: token_bucket, scope: global }
from 0s to 20s us offers 5/s of two
always fullest window under one: at most 100%
always fullest window under one in us: at most 1%
always admitted of the limit under two: at most 100%
expect admitted by PoPs alone in eu: 3
expect admitted by PoPs alone under two from 10s to 15s: 2
`))(t)
	eu := &drive.Result{Seconds: map[int64]drive.Second{1005: {OK: 103}}}
	us := &drive.Result{Seconds: map[int64]drive.Second{1010: {OK: 107}}, Elapsed: 20 * time.Second} // 5 + 5 × 20 and 2
	mark := func(at time.Duration, one, two float64) Mark {
		return Mark{At: at, Alone: map[alone]float64{{"eu", "one"}: one, {"us", "two"}: two}}
	}
	for _, c := range []struct {
		one, two float64 // by PoPs alone
		want     string
	}{{3, 2, "ok ok ok ok ok"}, {2, 1, "FAILS ok FAILS short short"}} {
		p := &Played{Script: s, begin: time.Unix(1_000, 0), results: []*drive.Result{eu, us}, first: mark(0, 50, 70),
			marks: map[time.Duration]Mark{20 * time.Second: mark(20*time.Second, 50+c.one, 70+c.two)}}
		for at := time.Second; at < 20*time.Second; at += time.Second {
			m := mark(at, 50, 70)
			if at > 5*time.Second {
				m.Alone[alone{"eu", "one"}] += c.one
			}
			if at > 10*time.Second {
				m.Alone[alone{"us", "two"}] += c.two
			}
			p.watched = append(p.watched, m)
		}
		var got []string
		for _, row := range p.Judge() {
			got = append(got, string(row.Outcome))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
