package regions

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/rulefile"
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

// What the redis of the aggregators loses can be said where there is one.
func TestTwoAggregators(t *testing.T) {
	s, err := Parse("f", "name", head+"two aggregators share a redis\nat 5s kill redis of one at the aggregator\nat 6s kill redis of the record in eu\nexpect admitted: 5/s\n")
	if err != nil || !s.Shared || s.Events[0].Act.rule != "one" || s.Events[1].Act.region != "eu" || s.Events[1].Act.rule != "" {
		t.Errorf("read %+v: %v", s, err)
	}
}

// A script may have weights of its own: equal ones without.
func TestWeights(t *testing.T) {
	s, err := Parse("f", "name", "regions { eu: 3, us: 2, ap: 1 }\n"+head+"expect admitted: 5/s\n")
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(s.Weights, map[string]int{"eu": 3, "us": 2, "ap": 1}) {
		t.Errorf("weights are %v", s.Weights)
	}
	text, err := s.Document()
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

// Where a script has two rules, a figure is of one of them, or of both together.
func TestFiguresOfARule(t *testing.T) {
	s, err := Parse("f", "name", head+`rule two { limit: 50/10s, algorithm: fixed_window, scope: global }
from 0s to 20s eu offers 5/s of two
always fullest window under one: 60%
always fullest window under two: 80%
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
	if _, err := Parse("f", "name", head+"rule two { limit: 5/10s }\nalways fullest window: 5%\n"); err == nil || !strings.Contains(err.Error(), "write under RULE") {
		t.Errorf("a percentage of two rules is %v", err)
	}
}

// A change is known as late as the last request that is refused. It is not measured where
// a load had not been refused before, or was refused to its end.
func TestChange(t *testing.T) {
	s, err := Parse("f", "name", head+`at 5s apply limit 50/10s to one
from 0s to 20s us offers 5/s of one
expect change from 5s: at most 1s
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
	}{{time.Second, 300 * time.Millisecond, Holds}, {time.Second, 1100 * time.Millisecond, Short}, {-time.Second, time.Second, Short}} {
		results := []*drive.Result{{Refused: acted.Add(c.eu)}, {Refused: acted.Add(c.us)}}
		p := &Played{Script: s, begin: begin, acts: []act{{began: acted.Sub(begin)}}, results: results}
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
	before, err := s.Document()
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

// A reserve is in use until no replica goes on by it. It is not measured where none did, or where that did not end.
func TestUseOfReserve(t *testing.T) {
	s, err := Parse("f", "name", head+"expect use of the reserve in eu from 10s to 14s: at most 2s\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		before int   // how many replicas of eu go on by it at 10 s
		after  []int // and each second from 11 s on
		want   Outcome
	}{
		{2, []int{2, 1, 0, 0}, Holds}, {1, []int{0, 0, 0, 0}, Holds}, {2, []int{2, 0, 1, 0}, Short},
		{0, []int{0, 0, 0, 0}, Short}, {2, []int{2, 2, 2, 2}, Short}, {2, []int{0, 0, 0, 1, 0}, Short},
	} {
		p := &Played{Script: s, marks: map[time.Duration]Mark{10 * time.Second: {Reserves: map[string]int{"eu": c.before, "us": 2}}}}
		for i, n := range c.after {
			p.watched = append(p.watched, Mark{At: time.Duration(11+i) * time.Second, Reserves: map[string]int{"eu": n, "us": 2}})
		}
		if row := p.Judge()[0]; row.Outcome != c.want {
			t.Errorf("%d at first and then %v: %+v, want %s", c.before, c.after, row, c.want)
		}
	}
}

// What PoPs admit by themselves is counted apart: it does not count as too much of a window or of a bucket.
func TestAdmittedByPoPsAlone(t *testing.T) {
	s, err := Parse("f", "name", head+`rule two { limit: 5/1s, scope: global }
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

// What was left of a window may be spent until a trip after its end. It does not count as too
// much of the next one, but more does, and so does the same after a window that was used up.
func TestCarriedOver(t *testing.T) {
	s, err := Parse("f", "name", strings.Replace(head, "5/s", "20/s", 1)+`trip eu 250ms
from 0s to 20s us offers 20/s of one
always fullest window from 10s: at most 100%
always fullest window in eu from 10s: at most 100%
`)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct { // 20/s × (250 ms and as much of a busy machine) are 10
		before, after int64
		want          Outcome
	}{{80, 110, Holds}, {80, 111, Fails}, {97, 103, Holds}, {97, 104, Fails}, {100, 101, Fails}} {
		seconds := map[int64]drive.Second{1000: {OK: c.before}, 1010: {OK: c.after}}
		p := &Played{Script: s, begin: time.Unix(1_000, 0), results: []*drive.Result{{Seconds: seconds}, {}}}
		for _, row := range p.Judge() {
			if row.Outcome != c.want {
				t.Errorf("%+v after %d of 100 in the window before, want %s", row, c.before, c.want)
			}
		}
	}
}

// The window that ran when a region was cut off may admit the region's share of the rate beside the limit, for as
// long as it is cut off, and so may one that begins within 3 s and a trip. Later ones may not, nor does a rule that
// denies.
func TestWindowThatRan(t *testing.T) {
	const text = `regions { eu: 1, us: 3, ap: 1 }
begin at a multiple of 10s
from 0s to 40s eu offers 20/s of one
at 5s cut eu
at 6s apply regions { eu: 1, us: 1, ap: 2 }
at 22s heal eu
always window that ran: at most 100%
always fullest window begun 3s after cut eu: at most 100%
`
	for _, c := range []struct {
		cut           time.Duration
		onFailure     string
		first, second int64
		want          string
	}{
		{5 * time.Second, "local", 112, 100, "ok ok"}, // a quarter of 100 in half of a window
		{5 * time.Second, "local", 113, 100, "FAILS ok"},
		{5 * time.Second, "local", 112, 101, "ok FAILS"},
		{8 * time.Second, "local", 105, 130, "ok ok"}, // 2 s of the first, and 12 s until the second ends
		{8 * time.Second, "local", 106, 130, "FAILS ok"},
		{8 * time.Second, "local", 105, 131, "FAILS ok"},
		{5 * time.Second, "deny", 101, 100, "FAILS ok"},
	} {
		s, err := Parse("f", "name", strings.Replace(head, "global", "global, on_failure: "+c.onFailure, 1)+text)
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
		if all := p.outages(); len(all) != 1 || all[0] != (outage{"eu", c.cut, 23 * time.Second}) {
			t.Errorf("outages are %+v", all)
		}
	}
}

// A region is cut off until the last of what cuts it off has ended.
func TestOutages(t *testing.T) {
	s, err := Parse("f", "name", head+`two aggregators share a redis
at 1s slow eu to 485ms
at 2s lose 30% of calls of eu
at 3s kill all redis at the aggregator
at 4s heal eu
at 5s start redis at the aggregator
at 6s stop the aggregator
always admitted: at least 0/s
`)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := s.Events[0].Act, s.Events[1].Act; a.trip != 485*time.Millisecond || b.lost != 0.3 {
		t.Errorf("read %+v and %+v", a, b)
	}
	p := &Played{Script: s}
	for _, e := range s.Events {
		p.acts = append(p.acts, act{e.At, e.At})
	}
	const second = time.Second
	for i := range 20 {
		p.watched = append(p.watched, Mark{At: time.Duration(i) * second / 2, Granted: map[string]float64{"eu": float64(i), "us": float64(i)}})
	}
	want := []outage{
		{"eu", second, 5500 * time.Millisecond}, {"eu", 6 * second, 6500 * time.Millisecond}, // by the other aggregator
		{"us", 3 * second, 5500 * time.Millisecond}, {"us", 6 * second, 6500 * time.Millisecond},
		{"ap", 3 * second, 20 * second}, {"ap", 6 * second, 20 * second}, // granted nothing
	}
	if got := p.outages(); !slices.Equal(got, want) {
		t.Errorf("outages are %v, want %v", got, want)
	}
}

// A script that is played in one window of an hour waits for the next one when little of it is left.
func TestBeginning(t *testing.T) {
	s, err := Parse("f", "name", head+"begin with 1m left of 1h\nalways admitted: at least 0/s\n")
	if err != nil {
		t.Fatal(err)
	}
	for now, want := range map[int64]int64{7200: 7201, 10738: 10739, 10740: 10800} {
		if got := s.beginning(time.Unix(now, 0)).Unix(); got != want {
			t.Errorf("at %d a script begins at %d, want %d", now, got, want)
		}
	}
}

// Workers state the number of the rules by which they decide.
func TestMarked(t *testing.T) {
	s, err := Parse("f", "name", head+"always admitted: at least 0/s\n")
	if err != nil {
		t.Fatal(err)
	}
	document, err := s.Document()
	if err != nil {
		t.Fatal(err)
	}
	text, err := marked(document, 7)
	if err != nil || !strings.Contains(text, "limit: 7/1h") || !strings.Contains(text, "path: /"+marker) || !strings.Contains(text, "header: "+playHeader) {
		t.Errorf("%v:\n%s", err, text)
	}
}
