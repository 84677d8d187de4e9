package ruletests

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

const (
	repeatForm = "5x, each when the one before is decided, or every 100ms for 10s: 1 to 1000000 requests"
	faultForm  = "region NAME away, aggregator away or aggregator away for NAME, and likewise back"
)

var (
	repeats = regexp.MustCompile(`^(?:([0-9]{1,7})x|every (\S+) for (\S+))$`)
	faults  = regexp.MustCompile(`^(?:region (\S+)|aggregator) (away|back)(?: for (\S+))?$`)
)

// step reads a step, whose request is base but for what it states itself.
func (t *testReader) step(v strict.Value, base request.Request) {
	if !v.Object(stepFields...) {
		return
	}
	s := step{line: v.Node().Pos.Line, at: duration(v.Field("at"), "31s"), count: 1, request: base}
	if s.at >= 0 && s.at < t.end {
		v.Field("at").Fail("goes back: the steps before last until " + rule.FormatPeriod(t.end) + "; write a later time, or leave it out")
	}
	t.end = max(t.end, s.at)
	if v.Field("fault").Present() {
		t.fault(v, &s)
		t.steps = append(t.steps, s)
		return
	}
	if pop, ok := v.Field("pop").String("the name of a PoP"); ok {
		var names []string
		for _, p := range t.pops {
			names = append(names, p.name)
		}
		if s.pop = slices.Index(names, pop); s.pop < 0 {
			v.Field("pop").Fail(strict.Quote(pop) + " is not among the pops of the test; add it there, or write " + oneOf(pop, names))
		}
	}
	readRequest(v.Field("request"), &s.request)
	if s.request.Path == "" && v.Field("request").Ok() {
		v.FailName("request", "has no url; write "+requestForm+", here or for the whole test")
	}
	s.repeat(v.Field("repeat"))
	if s.lasts = max(0, duration(v.Field("lasts"), "10s")); s.lasts > limit.Day {
		v.Field("lasts").Fail("is longer than 1d; write a shorter time")
	}
	before, length := t.requests, limit.Micros(s.count-1)*s.every
	t.requests, t.end = t.requests+s.count, t.end+length
	switch {
	case before <= maxRequests && t.requests > maxRequests:
		v.Fail("is the request " + strconv.Itoa(t.requests) + " of the test; write at most " + strconv.Itoa(maxRequests) + " in all its steps")
	case t.end > maxTime && t.end-max(length, s.at) <= maxTime:
		v.Fail("goes on after " + rule.FormatPeriod(maxTime) + "; write earlier times")
	}
	expectReader{t, &s}.read(v.Field("expect"))
	t.steps = append(t.steps, s)
}

// duration reads one, which may be 0; negative: it is absent.
func duration(v strict.Value, example string) limit.Micros {
	want := "a duration with its unit (ms, s, m, h, d), such as " + example
	if v.Kind() == strict.Int {
		v.Fail(v.Node().Text + " has no unit; write " + want)
	} else if v.Is(strict.String, want) {
		if d, ok := rule.ParsePeriod(v.Node().Text); ok {
			return d
		}
		v.Fail(strict.Quote(v.Node().Text) + " is no duration; write " + want)
	}
	return -1
}

// repeat reads how many requests come, and when.
func (s *step) repeat(v strict.Value) {
	if !v.Is(strict.String, repeatForm) {
		return
	}
	if m := repeats.FindStringSubmatch(v.Node().Text); m != nil {
		s.count, _ = strconv.Atoi(m[1])
		length, _ := rule.ParsePeriod(m[3])
		if every, _ := rule.ParsePeriod(m[2]); every > 0 && every <= length && (length-1)/every < maxRequests {
			s.count, s.every = int((length-1)/every)+1, every
		}
	} else {
		s.count = 0
	}
	if s.count < 1 || s.count > maxRequests {
		v.Fail(strict.Quote(v.Node().Text) + " is no way to repeat; write " + repeatForm)
		s.count = 1
	}
}

// fault reads a step that is one.
func (t *testReader) fault(v strict.Value, s *step) {
	s.count = 0
	for _, name := range v.Names() {
		if name != "fault" && name != "at" && slices.Contains(stepFields, name) {
			v.FailName(name, "does not go together with fault; write it into a step of its own")
		}
	}
	f := v.Field("fault")
	if !f.Is(strict.String, faultForm) {
		return
	}
	m := faults.FindStringSubmatch(f.Node().Text)
	if m == nil || m[1] != "" && m[3] != "" {
		f.Fail(strict.Quote(f.Node().Text) + " is no fault; write " + faultForm)
		return
	}
	s.fault = fault{m[1] == "", m[1] + m[3], m[2] == "away"}
	known, what := regions(&t.Test, t.set), strings.Replace(m[0], m[2], "", 1)
	switch {
	case s.fault.region != "" && !slices.Contains(known, s.fault.region):
		f.Fail("there is no region " + strict.Quote(s.fault.region) + "; add a PoP of it to pops, or write " + oneOf(s.fault.region, known))
	case s.fault.aggregator && t.set != nil && (!divides(t.set) || len(known) < 2):
		f.Fail("the test has no aggregator: that takes a rule with scope: global, and two regions; write region NAME away")
	case s.fault.away == t.away[what]:
		f.Fail("is so already; leave it out")
	}
	t.away[what] = s.fault.away
}

// regions are those that run in a test: those of its PoPs, and those of the document where they share limits. t is nil for
// those of the document alone.
func regions(t *Test, set *rule.Set) (all []string) {
	if t != nil {
		for _, p := range t.pops {
			all = append(all, p.region)
		}
	}
	if set != nil && (t == nil || divides(set)) {
		for _, r := range set.Regions() {
			all = append(all, r.Name)
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(name string) bool { return name == "" })
}

// divides reports whether regions share a limit.
func divides(set *rule.Set) bool {
	for i := range set.Len() {
		if r := set.Rule(i); r.Scope == rule.ScopeGlobal && r.Mode != rule.Off {
			return true
		}
	}
	return false
}
