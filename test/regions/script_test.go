package regions

import (
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/fatal"
)

const head = "rules: [{ name: one, limit: 100/10s, algorithm: fixed_window, scope: global }]\nloads: [{ to: 20s, region: eu, rate: 5, rule: one }]\n"

// Every script can be read.
func TestScriptsCanBeRead(t *testing.T) {
	fatal.Get(ReadAll("scripts/testdata"))(t)
}

// A mistake is reported with the reason.
func TestMistakes(t *testing.T) {
	for line, want := range map[string]string{
		"wait: 5s":                                           "field wait not found",
		"trip: 5":                                            "cannot unmarshal",
		"events: [{ at: 5s, do: paint eu }]":                 `nothing does "paint eu"`,
		"events: [{ at: 5s, do: cut mars }]":                 `nothing does "cut mars"`,
		"expect: [{ figure: weather, most: 5 }]":             "is no figure",
		"expect: [{ figure: admitted, rule: two, most: 5 }]": "is no rule of this script",
		"always: [{ figure: admitted, least: 5 }]":           "write most, or expect",
	} {
		if _, err := Parse("name", head+line+"\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", line, err, want)
		}
	}
}

// What is admitted is counted by windows and by regions. A request that is answered after
// the window of its sending is not counted against that window, and one of a later second is.
func TestFigures(t *testing.T) {
	s := fatal.Get(Parse("name", strings.Replace(head, "one }]\n", "one }, { to: 20s, region: us, rate: 5, rule: one }]\n", 1)+`
always:
  - { figure: fullest window, most: 198 }
  - { figure: fullest window, most: 197 }
  - { figure: fullest window, from: 10s, most: 95 }
  - { figure: 5xx or no answer, most: 5 }
expect:
  - { figure: admitted of the limit, least: 150 }
  - { figure: admitted, region: us, from: 10s, near: [1, 0] }
  - { figure: emptiest window, region: us, from: 10s, least: 10 }
  - { figure: emptiest window, region: us, least: 1 }
  - { figure: slowest request, most: 1 }
  - { figure: requests slower than their timeout, most: 0 }
`))(t)
	begin := time.Unix(1_000, 0)
	eu, us := &drive.Result{Failed: 2, Latency: drive.Latencies{1_100_001}, Slowest: 2 * time.Second}, &drive.Result{Seconds: map[int64]drive.Second{1010: {Sent: 20, OK: 10}}}
	eu.Seconds = map[int64]drive.Second{
		1000: {Sent: 150, OK: 150}, 1008: {Sent: 1, OK: 1, Later: map[int64]int64{1010: 1}},
		1009: {Sent: 90, OK: 50, Later: map[int64]int64{1010: 2}}, 1012: {Sent: 90, OK: 85, Later: map[int64]int64{1013: 5}}, 1020: {OK: 1}}
	eu.Status[503], eu.Status[429] = 3, 9
	p := &Played{Script: s, begin: begin, results: []*drive.Result{eu, us}}
	want := []Outcome{Holds, Fails, Holds, Holds, Short, Holds, Holds, Short, Short, Short}
	for i, row := range p.Judge() {
		if row.Outcome != want[i] {
			t.Errorf("%+v, want %s", row, want[i])
		}
	}
}

// What PoPs admit by themselves is counted apart: it does not count as too much of a window or of a bucket.
func TestAdmittedByPoPsAlone(t *testing.T) {
	s := fatal.Get(Parse("name", `
rules: [{ name: one, limit: 100/10s, algorithm: fixed_window, scope: global }, { name: two, limit: 5/1s, algorithm: token_bucket, scope: global }]
loads: [{ to: 20s, region: eu, rate: 5, rule: one }, { to: 20s, region: us, rate: 5, rule: two }]
always:
  - { figure: fullest window, rule: one, most: 100 }
  - { figure: fullest window, rule: one, region: us, most: 1 }
  - { figure: admitted of the limit, rule: two, most: 100 }
expect:
  - { figure: admitted by PoPs alone, region: eu, near: [3, 0] }
  - { figure: admitted by PoPs alone, rule: two, from: 10s, to: 15s, near: [2, 0] }
`))(t)
	eu := &drive.Result{Seconds: map[int64]drive.Second{1005: {OK: 103}}}
	us := &drive.Result{Seconds: map[int64]drive.Second{1010: {OK: 107}}, Elapsed: 20 * time.Second} // 5 + 5 × 20 and 2
	for _, c := range []struct {
		one, two float64 // by PoPs alone
		want     string
	}{{3, 2, "ok ok ok ok ok"}, {2, 1, "FAILS ok FAILS short short"}} {
		mark := func(at time.Duration) Mark {
			m := Mark{At: at, Alone: map[alone]float64{{"eu", "one"}: 50, {"us", "two"}: 70}}
			if at > 5*time.Second {
				m.Alone[alone{"eu", "one"}] += c.one
			}
			if at > 10*time.Second {
				m.Alone[alone{"us", "two"}] += c.two
			}
			return m
		}
		p := &Played{Script: s, begin: time.Unix(1_000, 0), results: []*drive.Result{eu, us}, first: mark(0),
			marks: map[time.Duration]Mark{20 * time.Second: mark(20 * time.Second)}}
		for at := time.Second; at < 20*time.Second; at += time.Second {
			p.watched = append(p.watched, mark(at))
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
