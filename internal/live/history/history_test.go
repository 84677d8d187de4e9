package history

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	v1 "github.com/weirlimit/weir/api/admin/v1"
	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/internal/distinct"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/fatal"
)

const start = 1_800_000_000_000 // divisible by an hour

// pop is a worker that reports every 10 s.
type pop struct {
	id      string
	started int64
	use     wire.RuleUse
}

func (p *pop) report(at int64) Report {
	use := &quotav1.RuleUse{
		Rule: "api", Admitted: p.use.Admitted, Denied: p.use.Denied, ShadowDenied: p.use.ShadowDenied, Fallback: p.use.Fallback, Shed: p.use.Shed,
		ShadowAdmitted: p.use.ShadowAdmitted,
	}
	return Report{p.id, at, &quotav1.ReportRequest{Members: []*quotav1.Member{{AgeMs: uint64(max(at-p.started, 0))}}, Rules: []*quotav1.RuleUse{use}}}
}

// again is the history that another replica goes on from.
func again(t rapid.TB, h *History) *History {
	t.Helper()
	for _, o := range h.hours {
		o.changed = true
	}
	return fatal.Get(Load(slices.Collect(maps.Values(h.Changed()))))(t)
}

func total(steps []uint64) (n uint64) {
	for _, one := range steps {
		n += one
	}
	return n
}

// query asks for keys of a rule; empty: of all.
func query(span int64, rejected bool, of string) KeysQuery {
	return KeysQuery{span, rejected, 1000, func(rule string) bool { return of == "" || rule == of }, func(rule string) bool { return rule == "hidden" }}
}

// All that is decided is in the history once, and when it was: for an hour by 10 s, and for a day by minute. Where another replica goes
// on, nothing is missing.
func TestSteps(t *testing.T) {
	h := New()
	p := pop{id: "p1", started: start - 5*second}
	for now := int64(start); now <= start+25*length; now += 10 * second {
		p.use.Admitted, p.use.Denied = p.use.Admitted+1000, p.use.Denied+10
		p.use.ShadowDenied, p.use.Fallback, p.use.Shed = p.use.ShadowDenied+5, p.use.Fallback+3, p.use.Shed+2
		h.Fold(now, []Report{p.report(now)})
		if now%(7*minute) == 0 {
			h = again(t, h)
		}
		if now%length > 20*minute {
			continue
		}
		if s := h.Steps(now, length); s.StepMs != 10*second { // also when an hour before gets longer steps
			t.Fatalf("steps of %d ms after %d s", s.StepMs, (now-start)/second)
		}
	}
	const end = start + 25*length
	for span, step := range map[int64]int64{15 * minute: 10 * second, length: 10 * second, day: minute} {
		s := h.Steps(end, span)
		if until := s.From.UnixMilli() + s.StepMs*int64(len(s.Known)); s.StepMs != step || int64(len(s.Known)) != span/step || until > end-late || until <= end-late-step {
			t.Errorf("span of %d s: steps of %d ms, %d of them, from %v", span/second, s.StepMs, len(s.Known), s.From)
		}
		if slices.Contains(s.Known, false) || len(s.Rules) != 1 {
			t.Fatalf("span of %d s: known %v, %d rules", span/second, s.Known, len(s.Rules))
		}
		n := uint64(step / (10 * second))
		for i := range s.Known {
			r := s.Rules[0]
			if r.Rule != "api" || r.Admitted[i] != 1000*n || r.Denied[i] != 10*n || r.ShadowDenied[i] != 5*n || r.Fallback[i] != 3*n || r.Shed[i] != 2*n {
				t.Fatalf("span of %d s, step %d: %d admitted, %d denied, %d %d %d", span/second, i, r.Admitted[i], r.Denied[i], r.ShadowDenied[i], r.Fallback[i], r.Shed[i])
			}
		}
	}
	if n := len(h.hours); n > 27 {
		t.Errorf("%d hours are kept", n)
	}
}

// Whatever holders report and when, the sum of all steps is what they counted since they were known.
func TestCountsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h, now, want := New(), int64(start), uint64(0)
		pops := make([]pop, 3)
		for i := range pops {
			pops[i] = pop{id: fmt.Sprint("p", i), started: now}
		}
		var notes []Report
		for range rapid.IntRange(1, 30).Draw(t, "folds") {
			now += rapid.Int64Range(600, 20*second).Draw(t, "pause")
			for i := range pops {
				if rapid.Bool().Draw(t, "reports") {
					n := rapid.Uint64Range(0, 10_000).Draw(t, "requests")
					pops[i].use.Admitted, want = pops[i].use.Admitted+n, want+n
					notes = slices.DeleteFunc(notes, func(r Report) bool { return r.ID == pops[i].id })
					notes = append(notes, pops[i].report(now-rapid.Int64Range(0, 500).Draw(t, "late")))
				}
			}
			if h.Fold(now, notes); rapid.Bool().Draw(t, "another replica goes on") {
				h = again(t, h)
			}
		}
		for _, span := range []int64{length, day} {
			got := uint64(0)
			for _, r := range h.Steps(now+minute+late, span).Rules {
				got += total(r.Admitted)
			}
			// A PoP whose first report is older than a minute is not known to have counted since.
			if got > want {
				t.Fatalf("%d requests of %d", got, want)
			}
			if got < want && !slices.ContainsFunc(pops, func(p pop) bool { return now-p.started >= young }) {
				t.Fatalf("%d requests of %d", got, want)
			}
		}
	})
}

// A holder that is heard first counts whole if it is young, and not at all otherwise. What was idle does not count again.
func TestFirstReport(t *testing.T) {
	h := New()
	young, old := pop{id: "young", started: start - 50*second}, pop{id: "old", started: start - 70*second}
	young.use.Admitted, old.use.Admitted = 7, 1000
	admitted := func(when string, now int64, want uint64) {
		n := uint64(0)
		for _, r := range h.Steps(now+minute, 15*minute).Rules {
			n += total(r.Admitted)
		}
		if n != want {
			t.Errorf("%s: %d requests, want %d", when, n, want)
		}
	}
	h.Fold(start, []Report{young.report(start), old.report(start)})
	admitted("at first", start, 7)
	for now := int64(start); now <= start+10*minute; now += 5 * second {
		h.Fold(now, nil)
	}
	old.use.Admitted += 5
	h.Fold(start+10*minute+5*second, []Report{old.report(start + 10*minute + 4*second)})
	admitted("after an idle holder had 5 more", start+10*minute, 12)
	// Totals that fall are those of a holder that lies: nothing is taken away.
	old.use.Admitted = 3
	h.Fold(start+10*minute+10*second, []Report{old.report(start + 10*minute + 9*second)})
	admitted("after totals fell", start+10*minute, 12)
}

// Where nothing folds reports for more than a minute is a gap, and nothing that was counted meanwhile shows up as if it came later.
func TestGap(t *testing.T) {
	h := New()
	p := pop{id: "p1", started: start}
	for now := int64(start); now <= start+10*minute; now += 5 * second {
		if p.use.Admitted += 50; now > start+2*minute && now < start+5*minute {
			continue // the region does not run
		}
		if now == start+5*minute {
			h = again(t, h)
		}
		h.Fold(now, []Report{p.report(now)})
	}
	s := h.Steps(start+10*minute+late, 10*minute)
	for i, known := range s.Known {
		at := s.From.UnixMilli() + int64(i)*s.StepMs - start
		if want := at < 2*minute || at >= 5*minute; known != want {
			t.Errorf("known at %d s: %v", at/second, known)
		}
		if n := s.Rules[0].Admitted[i]; n > 100 || !known && n > 0 {
			t.Errorf("%d requests at %d s", n, at/second)
		}
	}
}

// With many rules steps become longer and have the sums of the steps before, and the history keeps within its memory.
func TestCoarser(t *testing.T) {
	h, now := New(), int64(start)
	for ; now <= start+4*length; now += 5 * minute {
		m := &quotav1.ReportRequest{Members: []*quotav1.Member{{AgeMs: uint64(now - start)}}}
		for i := range 3000 {
			n := uint64(now-start) / second
			m.Rules = append(m.Rules, &quotav1.RuleUse{Rule: fmt.Sprint("rule", i), Admitted: n, Denied: n, ShadowDenied: n, Fallback: n, Shed: n})
		}
		h.holders.Folded = now - 30*second
		if h.Fold(now, []Report{{"p1", now, m}}); h.bytes() > maxBytes {
			t.Fatalf("%d bytes after %d min", h.bytes(), (now-start)/minute)
		}
	}
	s := again(t, h).Steps(now+length, day)
	if s.StepMs <= minute || s.StepMs > length || len(s.Rules) != 3000 || total(s.Rules[0].Shed) != 4*length/second {
		t.Errorf("steps of %d s, %d rules, %d requests", s.StepMs/second, len(s.Rules), total(s.Rules[0].Shed))
	}
}

// Keys count by the rate that a report states, for the time that it states. Of each rule the first keys stay.
func TestKeys(t *testing.T) {
	h := New()
	m := func(at int64, rates ...*quotav1.KeyRate) []Report {
		return []Report{{"p1", at, &quotav1.ReportRequest{Members: []*quotav1.Member{{AgeMs: 3600_000}}, Keys: rates, Denied: rates[:1], KeysMs: minute}}}
	}
	rate := func(rule, key string, perMinute uint64) *quotav1.KeyRate {
		return &quotav1.KeyRate{Rule: rule, Key: []byte(key), Count: (perMinute*1000 + 59) / 60, Over: perMinute}
	}
	for i := range int64(30) {
		now := start + i*minute
		var many []*quotav1.KeyRate
		for k := range 100 {
			many = append(many, rate("busy", fmt.Sprint("key", i, ".", k), uint64(1000+k)))
		}
		h.Fold(now, m(now, append(many, rate("idle", "ann", 60), rate("hidden", "bob", 60))...))
	}
	k := h.Keys(start+30*minute, query(length, false, "idle"))
	if len(k.Keys) != 1 || k.Keys[0] != (v1.KeyHistory{Rule: "idle", Key: "ann", Requests: 1800, Over: 120}) {
		t.Errorf("%+v", k)
	}
	if k := h.Keys(start+30*minute, query(length, false, "hidden")); len(k.Keys) != 0 {
		t.Errorf("a rule that hides its keys: %+v", k.Keys)
	}
	all := h.Keys(start+30*minute, query(day, false, ""))
	if n := len(all.Keys); n > 2*maxKeys || all.Keys[0].Requests < all.Keys[n-1].Requests || all.From.UnixMilli() > start+minute {
		t.Errorf("%d keys since %v", n, all.From)
	}
	if denied := h.Keys(start+30*minute, query(length, true, "")); len(denied.Keys) != 30 {
		t.Errorf("%d rejected keys, want 30", len(denied.Keys))
	}
	if later := h.Keys(start+26*length, query(day, false, "")); len(later.Keys) != 0 {
		t.Errorf("%d keys of the day before", len(later.Keys))
	}
}

// A trial has its requests, what it would have rejected, and the number of keys of all PoPs.
func TestTrials(t *testing.T) {
	h := New()
	var a, b distinct.Keys
	for i := range 3000 {
		if a.Add(uint64(i)); i < 1500 {
			b.Add(uint64(i + 2250))
		}
	}
	for i, keys := range []*distinct.Keys{&a, &b} {
		p := pop{id: fmt.Sprint("p", i), started: start - second, use: wire.RuleUse{ShadowDenied: 4000, ShadowAdmitted: 6000}}
		r := p.report(start + length/2)
		r.Members[0].AgeMs = 1000
		r.Trials = []*quotav1.TrialKeys{{Rule: "api", Registers: keys[:]}, {Rule: "api", Registers: []byte("none")}}
		h.Fold(start+length/2, []Report{r})
	}
	k := again(t, h).Keys(start+length/2, query(length, false, ""))
	if len(k.Trials) != 1 {
		t.Fatalf("%+v", k.Trials)
	}
	if got := k.Trials[0]; got.Rule != "api" || got.Requests != 20_000 || got.ShadowDenied != 8000 || math.Abs(float64(got.Keys)-3750) > 3750*distinct.ErrorPercent/100 {
		t.Errorf("%+v, want 3,750 keys", got)
	}
}

// A holder that makes up ids, names and numbers neither fills the memory nor stops anything.
func TestLiars(t *testing.T) {
	h := New()
	for i := range 5 {
		now := start + int64(i)*5*second
		var reports []Report
		for k := range 300 {
			m := &quotav1.ReportRequest{Members: []*quotav1.Member{{AgeMs: math.MaxUint64}, {}}}
			for n := range 100 {
				m.Rules = append(m.Rules, &quotav1.RuleUse{Rule: fmt.Sprint("r", n), Admitted: math.MaxUint64 * uint64(k%2)})
				m.Keys = append(m.Keys, &quotav1.KeyRate{Rule: fmt.Sprint("r", n), Key: fmt.Append(nil, i, k, n), Count: math.MaxUint64, Over: math.MaxUint64})
				m.Trials = append(m.Trials, &quotav1.TrialKeys{Rule: fmt.Sprint("r", n), Registers: make([]byte, distinct.Registers)})
			}
			if k%3 == 0 {
				m.Members[0].AgeMs = 0
			}
			reports = append(reports, Report{fmt.Sprint(i, " ", k), now, m})
		}
		h.Fold(now, reports)
		n := 0
		for _, one := range h.holders.By {
			n += 1 + len(one.Totals)
		}
		if n > maxTotals || h.bytes() > maxBytes {
			t.Fatalf("%d totals of holders, %d bytes", n, h.bytes())
		}
		for _, o := range h.hours {
			if len(o.Keys) > 2*maxKeys || len(o.Trials) > maxTrials {
				t.Fatalf("%d keys, %d trials", len(o.Keys), len(o.Trials))
			}
		}
	}
	again(t, h).Steps(start+minute, length)
}

// FuzzLoad: whatever is stored neither stops a replica that goes on from it nor makes what it shows illegal.
func FuzzLoad(f *testing.F) {
	h := New()
	p := pop{id: "p1", started: start, use: wire.RuleUse{Admitted: 5}}
	h.Fold(start, nil)
	h.Fold(start+second, []Report{p.report(start + second)})
	for _, text := range h.Changed() {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		h, _ := Load([][]byte{text})
		p := pop{id: "p1", started: start, use: wire.RuleUse{Admitted: 5}}
		h.Fold(start+10*second, []Report{p.report(start + 10*second)})
		s := h.Steps(start+minute, length)
		for _, r := range s.Rules {
			if len(r.Admitted) != len(s.Known) {
				t.Errorf("%d steps, %d are known", len(r.Admitted), len(s.Known))
			}
		}
		h.Keys(start+minute, query(day, true, ""))
	})
}
