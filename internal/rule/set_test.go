package rule

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule/strict"
	"pgregory.net/rapid"
)

func TestDefaults(t *testing.T) {
	set := decode(t, `{"rules":[{"name":"a","key":["client_ip"],"limit":"5/1m"}]}`)
	want := Rule{
		Name:       "a",
		Key:        []Part{{{From: FromClientIP, IPv6Prefix: 64}}},
		Limits:     []Variant{{Limit: limit.Spec{Count: 5, Period: limit.Minute, Burst: 5, LeaseTTL: 10 * limit.Second}}},
		Cost:       Cost{Default: 1},
		DenyStatus: 503, ExpectedHolders: 1,
		Timeout:       100 * limit.Millisecond,
		LeaseInterval: 100 * limit.Millisecond,
	}
	if got, want := fmt.Sprintf("%+v", *set.Rule(0)), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if set := decode(t, `{"rules":[{"name":"a","key":[],"limit":"5/1m","consistency":"optimistic"}]}`); set.Rule(0).Overdraft != 1 {
		t.Errorf("overdraft %d, want 1", set.Rule(0).Overdraft)
	}
}

// TestVersionIsOfTheMeaning: however rules are written, the same rules have the
// same version, and others another.
func TestVersionIsOfTheMeaning(t *testing.T) {
	const head = `{"rules":[{"name":"a",`
	same := []string{
		head + `"key":["client_ip"],"limit":"5/1m","match":{"headers":{"x-b":"2","x-a":"1"}}}]}`,
		head + `"limit":{"burst":5,"per":"60s","count":5},"key":[{"client_ip":{"ipv6_prefix":64}}],"match":{"headers":{"X-A":{"exact":"1"},"X-B":"2"}}}]}`,
		head + `"key":["client_ip"],"limit":"5/1m","match":{"headers":{"x-a":"1","x-b":"2"}},"mode":"enforce","timeout":"100ms","cost":1,"on_failure":{"action":"allow"},"lease":{"ttl":"10s"}}]}`,
		`{"client_ip":{"trusted_hops":0},` + head[1:] + `"key":[{"client_ip":{}}],"limit":"5/1m","match":{"headers":{"x-a":"1","x-b":"2"}}}]}`,
	}
	version := decode(t, same[0]).Version
	for _, doc := range same {
		if got := decode(t, doc); got.Version != version {
			t.Errorf("%s\nhas the version of %s", doc, got.Encode())
		}
	}
	if len(version) != 32 {
		t.Errorf("version %q", version)
	}
	if decode(t, head+`"key":["client_ip"],"limit":"6/1m"}]}`).Version == decode(t, head+`"key":["client_ip"],"limit":"5/1m"}]}`).Version {
		t.Error("another limit has the same version")
	}
}

// TestNewRefuses has the mistakes that only Go code can make; those of documents
// are in package rulefile.
func TestNewRefuses(t *testing.T) {
	for _, test := range []struct {
		name  string
		spoil func(*Rule)
		want  string
	}{
		{"no limit", func(r *Rule) { r.Limits = nil }, "rules[0].limit: is missing; write a limit such as 5/1m, or { count: 5, per: 1m, burst: 10 }"},
		{"mode", func(r *Rule) { r.Mode = 3 }, "rules[0].mode: 3 is unknown; write one of enforce, shadow, off"},
		{"scope", func(r *Rule) { r.Scope = 3 }, "rules[0].scope: 3 is unknown; write one of region, pop, global"},
		{"microseconds", func(r *Rule) { r.Timeout = 1500 }, "rules[0].timeout: 1500 µs is not whole milliseconds; write 1ms to 1s"},
		{"source", func(r *Rule) { r.Key = []Part{{{From: 9}}} }, "rules[0].key[0]: 9 is unknown; write one of client_ip, header, path, method, query, const"},
		{"empty part", func(r *Rule) { r.Key = []Part{{}} }, "rules[0].key[0]: has no source; write " + sourceForms},
		{"name of a path", func(r *Rule) { r.Key = []Part{{{From: FromPath, Name: "x"}}} }, `rules[0].key[0]: path takes no name; leave "x" out`},
		{"hops of a header", func(r *Rule) { r.Key = []Part{{{From: FromHeader, Name: "x", TrustedHops: 1}}} }, "rules[0].key[0]: trusted_hops and ipv6_prefix are only for client_ip; leave them out"},
		{"comparison", func(r *Rule) { r.Match.Headers = []HeaderMatch{{"x", Text{Op: 9}}} }, "rules[0].match.headers.x: compares in an unknown way; write exact, prefix, regex or present"},
		{"path present", func(r *Rule) { r.Match.Paths = []Text{{Op: OpPresent}} }, "rules[0].match.path: every request has a path; write an exact path, { prefix: ... }, { template: ... } or { regex: ... }"},
		{"base with condition", func(r *Rule) { r.Limits[0].When.Methods = []string{"GET"} }, "rules[0].limit: the base limit has a condition; make it an override"},
		{"mixed algorithms", func(r *Rule) {
			r.Limits = append(r.Limits, Variant{When: Match{Methods: []string{"GET"}}, Limit: limit.Spec{Algorithm: limit.FixedWindow, Count: 5, Period: limit.Minute}})
		}, "rules[0].overrides[0].limit: differs from the rule's own in more than count, per and burst"},
		{"two", func(r *Rule) { r.Name, r.Overdraft = "", 1 }, "rules[0].name: is empty; write 1 to 64 letters, digits, - or _\nrules[0].overdraft: is only for consistency: optimistic; leave it out, or write consistency: optimistic"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := Rule{Name: "a", Limits: perMinute(5)}
			test.spoil(&r)
			set, err := New([]Rule{r})
			var errs strict.Errors
			if set != nil || !errors.As(err, &errs) || err.Error() != test.want {
				t.Errorf("set %v, error %v\nwant %s", set, err, test.want)
			}
		})
	}
	if _, err := New(make([]Rule, MaxRules+1)); err == nil || !strings.Contains(err.Error(), "rules: has 1001 rules; write at most 1000") {
		t.Errorf("1001 rules: %v", err)
	}
}

// TestCombinations has the border of every legal combination from both sides.
func TestCombinations(t *testing.T) {
	const legal, illegal = true, false
	for _, test := range []struct {
		rule string
		want bool
	}{
		{`"limit":"5/1s","algorithm":"fixed_window"`, legal},
		{`"limit":"5/999ms","algorithm":"fixed_window"`, illegal},
		{`"limit":"5/999ms","algorithm":"fixed_window","consistency":"exact"`, legal},
		{`"limit":"5/999ms","algorithm":"sliding_window","consistency":"optimistic"`, illegal},
		{`"limit":"5/999ms","algorithm":"fixed_window","scope":"pop"`, legal},
		{`"limit":{"count":100,"per":"1s","burst":15}`, legal},
		{`"limit":{"count":100,"per":"1s","burst":14}`, illegal},
		{`"limit":{"count":100,"per":"1s","burst":14},"consistency":"exact"`, legal},
		{`"limit":{"count":100,"per":"1s","burst":15},"lease":{"interval":"101ms"}`, illegal},
		{`"limit":{"count":4294967295,"per":"1s","burst":644245095}`, legal},
		{`"limit":{"count":4294967295,"per":"1s","burst":644245094}`, illegal},
		{`"limit":"100/150ms"`, legal},
		{`"limit":"100/149ms"`, illegal},
		{`"limit":"0/1m"`, legal},
		{`"limit":"5/1m","cost":5`, legal},
		{`"limit":"5/1m","cost":6`, illegal},
		{`"limit":{"count":5,"per":"1m","burst":6},"cost":6`, legal},
		{`"limit":"0/1m","cost":6`, legal},
		{`"limit":3,"algorithm":"concurrency","cost":4`, illegal},
		{`"limit":"5/1m","cost":{"header":"x","max":5}`, legal},
		{`"limit":"5/1m","cost":{"header":"x","max":6}`, illegal},
		{`"limit":"5/1m","cost":{"header":"x","default":5,"max":5}`, legal},
		{`"limit":"5/1m","algorithm":"sliding_log","consistency":"exact","min_interval":"1m"`, legal},
		{`"limit":"5/1m","algorithm":"sliding_log","consistency":"exact","min_interval":"61s"`, illegal},
		{`"limit":"5/1m","algorithm":"sliding_log","min_interval":"1s"`, illegal},
		{`"limit":"5/1m","algorithm":"sliding_log","lease":{"ttl":"1200ms"}`, legal},
		{`"limit":"5/1m","algorithm":"sliding_log","lease":{"ttl":"1201ms"}`, illegal},
		{`"limit":"5/1m","timeout":"1ms"`, legal},
		{`"limit":"5/1m","timeout":"1s"`, legal},
		{`"limit":"5/1m","timeout":"1001ms"`, illegal},
		{`"limit":"5/366d"`, legal},
		{`"limit":"5/366d1ms"`, illegal},
		{`"limit":"5/1m","lease":{"interval":"100ms","ttl":"100ms"}`, legal},
		{`"limit":"5/1m","lease":{"interval":"99ms"}`, illegal},
		{`"limit":"5/1m","lease":{"ttl":"10m"}`, legal},
		{`"limit":"5/1m","lease":{"ttl":"601s"}`, illegal},
		{`"limit":3,"algorithm":"concurrency","consistency":"exact","lease":{"ttl":"1m"}`, legal},
		{`"limit":3,"algorithm":"concurrency","scope":"pop"`, legal},
		{`"limit":"5/10s","algorithm":"fixed_window","scope":"global"`, legal},
		{`"limit":"5/9999ms","algorithm":"fixed_window","scope":"global"`, illegal},
		{`"limit":"5/9999ms","algorithm":"sliding_window","scope":"global","consistency":"optimistic"`, illegal},
		{`"limit":"5/1s","algorithm":"fixed_window","scope":"global","consistency":"exact"`, legal},
		{`"limit":"500/1s","scope":"global"`, legal},
		{`"limit":3,"algorithm":"concurrency","scope":"global"`, illegal},
		{`"limit":{"count":3},"algorithm":"concurrency"`, legal},
		{`"limit":3`, illegal},
	} {
		_, err := Decode([]byte(`{"rules":[{"name":"a","key":[],` + test.rule + `}]}`))
		if (err == nil) != test.want {
			t.Errorf("%s: legal %v, want %v (%v)", test.rule, err == nil, test.want, err)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, test := range []struct{ doc, want string }{
		{``, "1:1: the document ends where a value is expected"},
		{`[]`, "1:1: is a list; write a mapping with client_ip, rules, revision, regions"},
		{`null`, "1:1: has no value; write a mapping with client_ip, rules, revision, regions"},
		{`{"rules":{}}`, "1:2: rules: is a mapping; write a list of rules; [] for none"},
		{`{"rules":[{"name":"a","key":[],"limit":"5/1m","rank":1}]}`, "1:47: rules[0].rank: unknown field; write name, mode, match, key, limit, overrides, algorithm, align, min_interval, charge_denied, cost, scope, fair, consistency, overdraft, on_failure, timeout, lease or x_ratelimit"},
		{`{"rules":[{"name":"a","key":[],"limit":"5/1m"},{"name":"a","key":[],"limit":"5/1m"}]}`, `1:56: rules[1].name: "a" is taken; write a name that no other rule has; the first is rules[0] (line 1)`},
	} {
		set, err := Decode([]byte(test.doc))
		if set != nil || err == nil || err.Error() != test.want {
			t.Errorf("%s: set %v, error %v\nwant %s", test.doc, set, err, test.want)
		}
	}
}

// TestReadFromAnotherDocument: the filter has rules in its plugin configuration.
func TestReadFromAnotherDocument(t *testing.T) {
	n, err := strict.ParseJSON([]byte(`{"pop":"p","fallback":{"rules":[{"name":"","key":[],"limit":"5/1m"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	var errs strict.Errors
	v := strict.Root(n, &errs)
	const want = `1:41: fallback.rules[0].name: is empty; write 1 to 64 letters, digits, - or _`
	if set := Read(v.Field("fallback")); set != nil || errs.Error() != want {
		t.Errorf("set %v, errors %v", set, errs)
	}
	errs = nil
	if set := Read(v.Field("gone")); set != nil || errs.Error() != "1:1: gone: is missing; write a mapping with rules" {
		t.Errorf("set %v, errors %v", set, errs)
	}
}

// rules generates legal rules that use every part of the language.
var rules = rapid.Custom(func(t *rapid.T) []Rule {
	out := make([]Rule, rapid.IntRange(0, 3).Draw(t, "rules"))
	for i := range out {
		out[i] = legal.Draw(t, "rule")
		out[i].Name = string(rune('a'+i)) + out[i].Name
	}
	return out
})

var (
	word  = rapid.StringMatching(`[a-z0-9_-]{1,8}`)
	texts = rapid.Custom(func(t *rapid.T) Text {
		op := rapid.SampledFrom([]Op{OpExact, OpPrefix, OpRegex}).Draw(t, "op")
		return Text{Op: op, Arg: "/" + rapid.StringMatching(`[a-z"\\\\é]{0,4}`).Filter(func(s string) bool { return op != OpRegex || !strings.Contains(s, `\`) }).Draw(t, "arg")}
	})
	conditions = rapid.Custom(func(t *rapid.T) Match {
		m := Match{
			Methods: rapid.SliceOfN(rapid.SampledFrom([]string{"GET", "PUT"}), 0, 2).Draw(t, "methods"),
			Hosts:   rapid.SliceOfN(rapid.SampledFrom([]string{"a.B", "*.c", "[::1]"}), 0, 2).Draw(t, "hosts"),
			Paths:   rapid.SliceOfN(texts, 0, 2).Draw(t, "paths"),
		}
		if len(m.Paths) > 0 {
			m.IgnoreCase, m.IgnoreTrailingSlash, m.IgnorePathParameters = rapid.Bool().Draw(t, "case"), rapid.Bool().Draw(t, "slash"), rapid.Bool().Draw(t, "parameters")
		}
		for _, name := range rapid.SliceOfNDistinct(word, 0, 3, rapid.ID).Draw(t, "headers") {
			if name != "host" {
				m.Headers = append(m.Headers, HeaderMatch{Name: name, Text: rapid.OneOf(texts, rapid.Just(Text{Op: OpPresent}), rapid.Just(Text{Op: OpAbsent})).Draw(t, "text")})
			}
		}
		return m
	})
	sources = rapid.Custom(func(t *rapid.T) Source {
		s := Source{From: rapid.SampledFrom([]From{FromClientIP, FromHeader, FromQuery}).Draw(t, "from")}
		if s.From == FromClientIP {
			s.IPv6Prefix, s.TrustedHops = rapid.IntRange(0, 128).Draw(t, "prefix"), rapid.IntRange(0, 16).Draw(t, "hops")
		} else {
			s.Name = "x-" + word.Draw(t, "name")
		}
		return s
	})
	parts = rapid.Custom(func(t *rapid.T) Part {
		p := Part(rapid.SliceOfN(sources, 0, MaxSources-1).Draw(t, "sources"))
		if last := rapid.SampledFrom([]From{FromPath, FromMethod, FromConst, FromHeader}).Draw(t, "last"); last == FromConst || last == FromHeader {
			p = append(p, Source{From: last, Name: word.Draw(t, "name")})
		} else {
			p = append(p, Source{From: last})
		}
		return p
	})
)

var legal = rapid.Custom(func(t *rapid.T) Rule {
	r := Rule{
		Name:        word.Draw(t, "name"),
		Mode:        Mode(rapid.IntRange(0, 2).Draw(t, "mode")),
		Match:       conditions.Draw(t, "match"),
		Key:         rapid.SliceOfN(parts, 0, 3).Draw(t, "key"),
		Limits:      []Variant{{Limit: limit.Spec{Algorithm: limit.Algorithm(rapid.IntRange(0, 4).Draw(t, "algorithm")), Count: rapid.Int64Range(50, 10_000).Draw(t, "count")}}},
		Consistency: lease.Consistency(rapid.IntRange(0, 2).Draw(t, "consistency")),
		OnFailure:   lease.OnFailure(rapid.IntRange(0, 2).Draw(t, "on_failure")),
		Timeout:     limit.Millisecond * limit.Micros(rapid.IntRange(0, 1000).Draw(t, "timeout")),
		XRateLimit:  XRateLimit(rapid.IntRange(0, 2).Draw(t, "x_ratelimit")),
		Cost:        Cost{Default: rapid.Int64Range(0, 20).Draw(t, "cost")},
	}
	spec := &r.Limits[0].Limit
	if spec.Algorithm != limit.Concurrency {
		spec.Period = limit.Second * limit.Micros(rapid.IntRange(60, 100_000).Draw(t, "per"))
		spec.ChargeDenied = rapid.Bool().Draw(t, "charge_denied")
	}
	switch spec.Algorithm {
	case limit.TokenBucket:
		spec.Burst = spec.Count + rapid.Int64Range(0, 1).Draw(t, "burst")
	case limit.FixedWindow:
		spec.Align = limit.Align(rapid.IntRange(0, 1).Draw(t, "align"))
	case limit.SlidingLog:
		if r.Consistency == lease.Exact {
			spec.MinInterval = limit.Second * limit.Micros(rapid.IntRange(0, 60).Draw(t, "min_interval"))
		}
	}
	if rapid.Bool().Draw(t, "cost from header") {
		r.Cost.Header, r.Cost.Max = "x-cost", 20+rapid.Int64Range(0, 30).Draw(t, "max")
	}
	if spec.Algorithm != limit.Concurrency && rapid.Bool().Draw(t, "global") {
		r.Scope = ScopeGlobal
		if spec.Algorithm == limit.TokenBucket || spec.Algorithm == limit.FixedWindow {
			r.Fair = Fair(rapid.IntRange(0, 1).Draw(t, "fair"))
		}
	}
	if r.Consistency == lease.Optimistic {
		r.Overdraft = rapid.Int64Range(0, 5).Draw(t, "overdraft")
	}
	switch r.OnFailure {
	case lease.FailureDeny:
		r.DenyStatus = rapid.SampledFrom([]int{0, 429, 503}).Draw(t, "status")
	case lease.FailureLocal:
		r.ExpectedHolders = rapid.Int64Range(0, 3).Draw(t, "expected_holders")
	}
	if r.Consistency != lease.Exact && spec.Algorithm != limit.SlidingLog && rapid.Bool().Draw(t, "lease") {
		r.LeaseInterval, spec.LeaseTTL = 100*limit.Millisecond+limit.Millisecond*limit.Micros(rapid.IntRange(0, 100).Draw(t, "interval")), 2*limit.Second
	}
	for _, when := range rapid.SliceOfN(conditions.Filter(func(m Match) bool { return !m.empty() }), 0, 2).Draw(t, "overrides") {
		other := *spec
		other.Count++
		if other.Burst != 0 {
			other.Burst++
		}
		r.Limits = append(r.Limits, Variant{When: when, Limit: other})
	}
	return r
})

// TestRoundTrip: the compiled form is taken, means the same, and is its own
// compiled form.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		regions := weights.Draw(t, "regions")
		set, err := New(slices.DeleteFunc(rules.Draw(t, "rules"), func(r Rule) bool {
			return r.Scope == ScopeGlobal && r.OnFailure == lease.FailureLocal && len(regions) == 0
		}), regions...)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Decode(set.Encode())
		if err != nil {
			t.Fatalf("%s: %v", set.Encode(), err)
		}
		if string(again.Encode()) != string(set.Encode()) || again.Version != set.Version {
			t.Errorf("decoded  %s\nfrom     %s", again.Encode(), set.Encode())
		}
		if !slices.Equal(again.Inputs().Headers, set.Inputs().Headers) {
			t.Errorf("inputs %v, want %v", again.Inputs(), set.Inputs())
		}
		if !slices.Equal(again.Regions(), set.Regions()) {
			t.Errorf("regions %v, want %v", again.Regions(), set.Regions())
		}
		for i := range set.Len() {
			if got, want := fmt.Sprintf("%+v", *again.Rule(i)), fmt.Sprintf("%+v", *set.Rule(i)); got != want {
				t.Errorf("rule %d is\n%s\nwant\n%s", i, got, want)
			}
		}
	})
}

// FuzzDecode: no bytes break the decoder, and what it takes is stable.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"rules":[]}`))
	f.Add([]byte(`{"client_ip":{"trusted_hops":1},"rules":[{"name":"a","match":{"methods":["GET"],"hosts":["*.a"],"path":[{"prefix":"/a"}],"headers":{"x":{"present":true}}},"key":["client_ip",{"header":"u","else":{"query":"q"}}],"limit":{"count":5,"per":"1m","burst":6},"overrides":[{"when":{"header":{"t":"g"}},"limit":"7/1m"}],"cost":{"header":"c","max":5},"on_failure":{"action":"local","expected_holders":3},"lease":{"interval":"200ms","ttl":"5s"}}]}`))
	f.Add([]byte(`{"rules":[{"name":"a","key":[],"limit":3,"algorithm":"concurrency"}]}`))
	f.Add([]byte(`{"regions":{"eu":3,"us":1},"rules":[{"name":"a","key":[],"limit":"3/1m","scope":"global","on_failure":"allow"}]}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		set, err := Decode(doc)
		if err != nil {
			if set != nil || err.Error() == "" {
				t.Fatalf("set %v, error %q", set, err)
			}
			return
		}
		again, err := Decode(set.Encode())
		if err != nil {
			t.Fatalf("%s: %v", set.Encode(), err)
		}
		if again.Version != set.Version {
			t.Errorf("%s becomes %s", set.Encode(), again.Encode())
		}
		q, m := Request{Method: "GET", Host: "x.a", Path: "/a?q=1", Peer: "::1"}, Matches{}
		q.Headers = make([]Value, len(set.Inputs().Headers))
		set.Match(&q, &m)
	})
}
