package replay

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/test/kit/fatal"
)

const severalRules = `
rules:
  - { name: log, key: [client_ip], limit: 9/10s, algorithm: sliding_log }
  - name: paid
    match: { path: { prefix: /a } }
    key: [client_ip]
    cost: { header: x-cost, max: 3 }
    limit: 12/1m
    algorithm: sliding_window
    charge_rejected: true
    overrides: [{ key: [192.0.2.1], limit: 3/1m }, { key: [192.0.2.2], limit: unlimited }]
  - { name: streams, match: { path: { prefix: /a/b } }, key: [], limit: 3, algorithm: concurrency }
  - { name: trial, key: [client_ip], limit: 5/10s, mode: shadow }
  - { name: trials, key: [client_ip], limit: 2, algorithm: concurrency, mode: shadow }
`

// twin has a counter for each rule and client.
type twin struct {
	limits  func(rule int, client string) *limit.Limit
	states  map[string]limit.State
	streams map[string][]limit.Micros // when they end
}

// asks reports whether a rule admits a request, and how it charges that.
func (w *twin) asks(rule int, client string, now, lasts limit.Micros, cost int64) (admits bool, charge func()) {
	l, name := w.limits(rule, client), strconv.Itoa(rule)
	if rule != 2 {
		name += client
	}
	switch {
	case l == nil:
		return true, func() {}
	case l.Concurrent():
		w.streams[name] = slices.DeleteFunc(w.streams[name], func(end limit.Micros) bool { return end <= now })
		return int64(len(w.streams[name])) < l.Spec().Count, func() { w.streams[name] = append(w.streams[name], now+lasts) }
	}
	before := w.states[name]
	before.Log = slices.Clone(before.Log)
	after, d := l.Acquire(before, now, limit.Ask{Need: cost, Waiting: cost, Want: cost})
	if d.Granted == 0 {
		w.states[name] = after // a rejection may count
	}
	return d.Granted > 0, func() { w.states[name] = after }
}

// Of several rules one that rejects a request rejects it for all, and the others do not count it; rules in shadow see what passes.
func TestSeveralRules(t *testing.T) {
	set := rules(t, severalRules)
	three := set.Limit(1, 0).Spec()
	three.Count = 3
	own := fatal.Get(limit.New(three))(t)
	w := twin{states: map[string]limit.State{}, streams: map[string][]limit.Micros{}, limits: func(rule int, client string) *limit.Limit {
		if rule == 1 && client != "192.0.2.3" {
			return map[string]*limit.Limit{"192.0.2.1": own}[client]
		}
		return set.Limit(rule, 0)
	}}
	var l log
	dice, want, at := rand.New(rand.NewPCG(1, 2)), make([]Rule, 5), time.Duration(0)
	for range 5000 {
		at += time.Duration(dice.IntN(1000)) * time.Millisecond
		client, paths, cost := fmt.Sprint("192.0.2.", 1+dice.IntN(3)), dice.IntN(3), 1+dice.Int64N(3)
		lasts := time.Duration(dice.IntN(10_000)) * time.Millisecond
		l.add(at, client, []string{"/", "/a", "/a/b"}[paths], fmt.Sprintf(`,"ms":%d,"headers":{"x-cost":"%d"}`, lasts.Milliseconds(), cost))
		var charges []func()
		admits := func(rule int) bool {
			units := map[int]int64{1: cost}[rule]
			admits, charge := w.asks(rule, client, limit.Micros(noon.Add(at).UnixMicro()), limit.Micros(lasts.Microseconds()), max(units, 1))
			if add(&want[rule].Denied, !admits); admits {
				charges = append(charges, charge)
			}
			return admits
		}
		enforced := []int{0, 1, 2}[:paths+1]
		denied := slices.ContainsFunc(enforced, func(rule int) bool { return !admits(rule) })
		for _, rule := range []int{3, 4} {
			if !denied {
				admits(rule)
			}
		}
		for _, charge := range charges {
			if !denied {
				charge()
			}
		}
		for _, rule := range append(slices.Clone(enforced), 3, 4) {
			want[rule].Matched++
			add(&want[rule].Admitted, !denied)
		}
	}
	for i, got := range run(t, l.String(), Config{Rules: set}).Rules {
		if got.Matched != want[i].Matched || got.Admitted != want[i].Admitted || got.Denied != want[i].Denied || got.Denied == 0 {
			t.Errorf("%+v, want %+v", got, want[i])
		}
	}
}

// A stream takes a slot and room for a day at most, however long its line says that it lasted.
func TestLongStreams(t *testing.T) {
	var l log
	for day := range 3 {
		l.add(time.Duration(day)*24*time.Hour, "192.0.2.1", "/", `,"ms":1099511627776`)
	}
	set := rules(t, "rules: [{ name: a, key: [], limit: 1, algorithm: concurrency }]")
	if r := run(t, l.String(), Config{Rules: set, MaxKeys: 1}); r.Admitted != 3 || r.Uncounted != 0 {
		t.Errorf("%+v", r)
	}
}

// Lines that cannot be used are counted, and the first five named; a log without any that can is an error.
func TestBroken(t *testing.T) {
	var l log
	l.add(0, "192.0.2.1", "/login", "")
	good := l.String()
	bad := []string{
		"", "no JSON\n", `{"client":"192.0.2.1"}` + "\n", `{"time":"yesterday"}` + "\n", `{"time":"1969-01-01T00:00:00Z"}` + "\n",
		`{"time":"` + strings.Repeat("x", 1<<20) + `"}` + "\n", "[]\n", strings.TrimSuffix(good, "}\n"),
	}
	r := run(t, strings.Join(bad[:4], "")+good+"\n\n"+good+strings.Join(bad[4:], ""), Config{Rules: rules(t, loginRules)})
	want := []string{"line 1: is in no format that Weir reads", "line 2: time: is missing", `line 3: time: "yesterday"`, "line 8: time: is missing, or before 1970", "line 9: has more than"}
	if r.Requests != 2 || r.Broken.Lines != 7 || len(r.Broken.First) != len(want) {
		t.Fatalf("%+v", r)
	}
	for i, text := range want {
		if !strings.HasPrefix(r.Broken.First[i], text) {
			t.Errorf("%s, want %s", r.Broken.First[i], text)
		}
	}
	for log, want := range map[string]string{"": "the log is empty", "\n": "the log is empty", bad[1] + bad[2]: "none of 2 lines can be used: line 1: is in no format"} {
		if _, err := Run(strings.NewReader(log), Config{Rules: rules(t, loginRules)}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %s", log, err, want)
		}
	}
}

// A log may be compressed; one that is cut off is an error.
func TestGzip(t *testing.T) {
	var l log
	for n := range 1000 {
		l.add(time.Duration(n)*time.Second, fmt.Sprint("192.0.2.", n%5), "/login", "")
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(l.Bytes())
	_ = w.Close()
	c := Config{Rules: rules(t, loginRules)}
	if got, want := run(t, packed.String(), c), run(t, l.String(), c); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if _, err := Run(bytes.NewReader(packed.Bytes()[:packed.Len()/2]), c); err == nil || !strings.Contains(err.Error(), "unexpected EOF") {
		t.Error(err)
	}
}
