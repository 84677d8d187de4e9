package regions

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
)

const head = "rule one { limit: 100/10s, algorithm: fixed_window, scope: global }\nfrom 0s to 20s eu offers 5/s of one\n"

// Every script can be read, and its rules are rules.
func TestScriptsCanBeRead(t *testing.T) {
	scripts, err := ReadAll("scripts/testdata")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scripts {
		if _, err := s.Document(); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
}

func TestParse(t *testing.T) {
	s, err := Parse("f", "name", head+`trip us 80ms # far
begin at a multiple of 10s
from 5s to 10s  us offers 2.5/s of no rule
at 7s heal ap
at 6s kill redis of one in us
aim admitted in eu from 5s to 10s: 5/s ± 10%
expect slowest request: at most 1s
always fullest window in us begun 3s after kill redis of one in us: at most 40%
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
	if e.Kind != Aim || e.Bound.Least != 4.5 || e.Bound.Most != 5.5 || e.Figure.Region != "eu" || e.Figure.To != 10*time.Second {
		t.Errorf("the first expectation is %+v", e)
	}
	if e := s.Expect[1]; e.Kind != Expect || !e.Bound.Holds(1) || e.Bound.Holds(1.1) {
		t.Errorf("the second expectation is %+v", e)
	}
	if e := s.Expect[2]; e.Kind != Always || e.Figure.Begun != (Begun{3 * time.Second, "kill redis of one in us"}) || e.Figure.Region != "us" {
		t.Errorf("the third expectation is %+v", e)
	}
}

// A mistake is reported with the place and with what is wrong.
func TestMistakes(t *testing.T) {
	for line, want := range map[string]string{
		"wait 5s":                                          "f:3: no line begins with",
		"trip 5":                                           "is not a time",
		"trip mars 5s":                                     "is no region",
		"begin at 5s":                                      "want begin at a multiple of TIME",
		"begin at a multiple of 10ms":                      "not whole seconds",
		"from 5s to 2s eu offers 1/s of one":               "no time at all",
		"from 1s to 2s eu offers 1 of one":                 "not a number per second",
		"from 1s to 2s eu offers 1/s of two":               `"two" is no rule of this script`,
		"from 1s to 2s mars offers 1/s of one":             "is no region",
		"at 5s paint eu":                                   `nothing does "paint eu"`,
		"at 5s cut mars":                                   "is no region",
		"at 5s apply limit 5/1m to two":                    "is no rule of this script",
		"at 5s apply limit 5/1y to one":                    "is not a limit",
		"two regions":                                      "want two aggregators share a redis",
		"at 5s kill redis of one at the aggregator":        "write two aggregators share a redis",
		"at 5s start redis at the aggregator":              "write two aggregators share a redis",
		"at 5s kill redis of two in eu":                    "is no rule of this script",
		"rule two { limit: 5/1y }":                         "is not a limit",
		"regions eu":                                       "regions: ",
		"regions { mars: 1 }":                              "is no region",
		"regions { eu: 0 }":                                "is out of range",
		"expect admitted under two: 5/s":                   `"two" is no rule of this script`,
		"expect use of the reserve from 5s: 5s":            "write in REGION",
		"expect weather: 5":                                "is no figure",
		"expect admitted in eu from: 5/s":                  "from is followed by nothing",
		"expect admitted: 5%":                              "not a number per second",
		"expect admitted: 5/s to 4/s":                      "is empty",
		"expect admitted: about 5/s":                       "is no bound",
		"always recovery: at most 5s":                      "write expect or aim",
		"expect fullest window: at most 100%":              "write always",
		"aim admitted of the limit: 98% to 100%":           "write always",
		"always emptiest window begun 3s: 5%":              "want begun TIME after ACTION",
		"always emptiest window begun 3s after cut eu: 5%": "is done 0 times",
		"at 5s apply regions { mars: 1 }":                  "is no region",
		"at 5s lose 130% of calls of eu":                   "is not 0% to 100%",
		"at 5s slow eu to 5":                               "is not a time",
		"begin with 1h left of 1m":                         "is not less than",
		"expect admitted of the limit: nearly 5":           "is no bound",
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
	s, err := Parse("f", "name", head+`from 0s to 20s us offers 5/s of one
always admitted of the limit: at least 150%
expect admitted in us from 10s: 1/s
always fullest window: at most 198%
always fullest window: at most 197%
always fullest window from 10s: at most 95%
always emptiest window in us from 10s: at least 10%
always emptiest window in us: at least 1%
always 5xx or no answer: 5
expect slowest request: at most 1s
aim requests slower than their timeout: 0
expect p99: 1s
`)
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Unix(1_000, 0)
	eu, us := &drive.Result{Failed: 2, Slow: 1, Slowest: 2 * time.Second}, &drive.Result{Seconds: map[int64]drive.Second{1010: {Sent: 20, OK: 10}}}
	eu.Seconds = map[int64]drive.Second{
		1000: {Sent: 150, OK: 150}, 1008: {Sent: 1, OK: 1, Later: map[int64]int64{1010: 1}},
		1009: {Sent: 90, OK: 50, Later: map[int64]int64{1010: 2}}, 1012: {Sent: 90, OK: 85, Later: map[int64]int64{1013: 5}}, 1020: {OK: 1}}
	eu.Status[503], eu.Status[429] = 3, 9
	p := &Played{Script: s, begin: begin, results: []*drive.Result{eu, us}}
	want := []Outcome{Fails, Holds, Holds, Fails, Holds, Holds, Fails, Holds, Short, Missed, Short} // without answers there is no p99
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
	whole := []Row{row(Always, Holds), row(Expect, Holds), row(Expect, Holds), row(Aim, Missed)}
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

// What has to hold in every play fails a script at once, and too much is too much in a void play, too.
func TestBroken(t *testing.T) {
	rows := []Row{{Figure: "a", Outcome: Holds}, {Figure: "b", Outcome: Fails}, {Figure: "c", Outcome: Fails, Above: true}, {Figure: "d", Outcome: Short, Above: true}}
	for void, want := range map[bool]string{false: "bc", true: "c"} {
		var got string
		for _, r := range Broken(rows, void) {
			got += r.Figure
		}
		if got != want {
			t.Errorf("void %v: %q breaks a script, want %q", void, got, want)
		}
	}
}

// What PoPs admit by themselves is counted apart: it does not count as too much of a window or of a bucket.
func TestAdmittedByPoPsAlone(t *testing.T) {
	s, err := Parse("f", "name", head+`rule two { limit: 5/1s, algorithm: token_bucket, scope: global }
from 0s to 20s us offers 5/s of two
always fullest window under one: at most 100%
always fullest window under one in us: at most 1%
always admitted of the limit under two: at most 100%
always admitted by PoPs alone in eu: 3
always admitted by PoPs alone under two from 10s to 15s: 2
`)
	if err != nil {
		t.Fatal(err)
	}
	eu := &drive.Result{Seconds: map[int64]drive.Second{1005: {OK: 103}}}
	us := &drive.Result{Seconds: map[int64]drive.Second{1010: {OK: 107}}, Elapsed: 20 * time.Second} // 5 + 5 × 20 and 2
	mark := func(at time.Duration, one, two float64) Mark {
		return Mark{At: at, Alone: map[alone]float64{{"eu", "one"}: one, {"us", "two"}: two}}
	}
	for _, c := range []struct {
		one, two float64 // by PoPs alone
		want     string
	}{{3, 2, "ok ok ok ok ok"}, {2, 1, "FAILS ok FAILS FAILS FAILS"}} {
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

// The window that ran when a region was cut off may admit the region's share of the rate beside the limit, for as
// long as it is cut off, and so may one that begins within 3 s and a trip. Later ones may not, unless calls are answered
// now and then, nor does a rule that denies.
func TestWindowThatRan(t *testing.T) {
	const text = `regions { eu: 1, us: 3, ap: 1 }
begin at a multiple of 10s
from 0s to 40s eu offers 20/s of one
at 5s ACT
at 6s apply regions { eu: 1, us: 1, ap: 2 }
at 22s heal eu
always window that ran: at most 100%
always fullest window begun 3s after ACT: at most 100%
`
	for _, c := range []struct {
		act           string
		cut           time.Duration
		onFailure     string
		first, second int64
		want          string
	}{
		{"cut eu", 5 * time.Second, "local", 112, 100, "ok ok"}, // a quarter of 100 in half of a window
		{"cut eu", 5 * time.Second, "local", 113, 100, "FAILS ok"},
		{"cut eu", 5 * time.Second, "local", 112, 101, "ok FAILS"},
		{"cut eu", 8 * time.Second, "local", 105, 125, "ok ok"}, // 2 s of the first, and all of the second
		{"cut eu", 8 * time.Second, "local", 106, 125, "FAILS ok"},
		{"cut eu", 8 * time.Second, "local", 105, 126, "FAILS ok"},
		{"cut eu", 5 * time.Second, "deny", 101, 100, "FAILS ok"},
		{"lose 30% of calls of eu", 5 * time.Second, "local", 112, 125, "ok FAILS"}, // it may have renounced the second
		{"lose 30% of calls of eu", 5 * time.Second, "local", 112, 126, "FAILS FAILS"},
		{"lose 100% of calls of eu", 5 * time.Second, "local", 112, 101, "ok FAILS"},
	} {
		s, err := Parse("f", "name", strings.Replace(head, "global", "global, on_failure: "+c.onFailure, 1)+strings.ReplaceAll(text, "ACT", c.act))
		if err != nil {
			t.Fatal(err)
		}
		p := &Played{Script: s, begin: time.Unix(1_000, 0), results: []*drive.Result{{}, {Seconds: map[int64]drive.Second{1000: {OK: c.first}, 1010: {OK: c.second}}}}}
		p.acts = []act{{c.cut, c.cut}, {6 * time.Second, 7 * time.Second}, {22 * time.Second, 22 * time.Second}}
		for i, granted := range []float64{1, 1, 5, 9} { // during the cut a call arrives, and its reply does not
			p.watched = append(p.watched, Mark{At: time.Duration(20+i) * time.Second, Granted: map[string]float64{"eu": granted}})
		}
		var got []string
		for _, row := range p.Judge() {
			got = append(got, string(row.Outcome))
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %v\n%s", c, got, p.Windows())
		}
		if all := p.outages(); len(all) != 1 || all[0] != (outage{"eu", c.cut, 23 * time.Second, strings.HasPrefix(c.act, "lose 30%")}) {
			t.Errorf("outages are %+v", all)
		}
	}
}
