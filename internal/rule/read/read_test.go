package read_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check"
	"github.com/weirlimit/weir/internal/rule/ip"
	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/internal/rule/refusal"
	"github.com/weirlimit/weir/internal/rule/strict"
	"github.com/weirlimit/weir/internal/shed"
	"pgregory.net/rapid"
)

func TestDecodeRefuses(t *testing.T) {
	for _, test := range []struct{ doc, want string }{
		{``, "1:1: the document ends where a value is expected"},
		{`[]`, "1:1: is a list; write a mapping with client_ip, rules, revision, regions, seed, ..."},
		{`null`, "1:1: has no value; write a mapping with client_ip, rules, revision, regions, seed, ..."},
		{`{"rules":{}}`, "1:2: rules: is a mapping; write a list of rules; [] for none"},
		{`{"rules":[{"name":"a","key":[],"limit":"5/1m","rank":1}]}`, "1:47: rules[0].rank: unknown field; write name, mode, match, from, percent, key, hash, shed, limit, limits, overrides, variants, algorithm, align, min_interval, charge_denied, cost, scope, fair, consistency, overdraft, on_failure, timeout, lease, headers, refusal, retry_jitter or live"},
		{`{"rules":[{"name":"a","key":[],"limit":"5/1m"},{"name":"a","key":[],"limit":"5/1m"}]}`, `1:56: rules[1].name: "a" is taken; write a name that no other rule has; the first is rules[0].name (line 1)`},
	} {
		set, err := read.JSON([]byte(test.doc))
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
	if set := read.Document(v.Field("fallback"), nil); set != nil || errs.Error() != want {
		t.Errorf("set %v, errors %v", set, errs)
	}
	errs = nil
	if set := read.Document(strict.Root(n, &errs).Field("gone"), nil); set != nil || errs.Error() != "1:1: gone: is missing; write a mapping with rules" {
		t.Errorf("set %v, errors %v", set, errs)
	}
}

// word generates a name.
var word = rapid.StringMatching(`[a-z0-9_-]{1,8}`)

// weights generates regions.
var weights = rapid.Custom(func(t *rapid.T) (rs rule.Regions) {
	for _, name := range rapid.SliceOfNDistinct(word, 0, 5, rapid.ID).Draw(t, "names") {
		rs = append(rs, rule.Region{Name: name, Weight: rapid.Int64Range(1, 1000).Draw(t, "weight")})
	}
	return rs
})

// rules generates legal rules that use every part of the language.
var rules = rapid.Custom(func(t *rapid.T) []rule.Rule {
	out := make([]rule.Rule, rapid.IntRange(0, 3).Draw(t, "rules"))
	for i := range out {
		out[i] = rapid.OneOf(legal, legal, sheds).Draw(t, "rule")
		out[i].Name = string(rune('a'+i)) + out[i].Name
	}
	if rapid.Bool().Draw(t, "exempt") {
		exempt := rule.Rule{Name: "exempt", Mode: rule.Exempt, Match: conditions.Draw(t, "match")}
		if len(out) > 0 && out[0].Scope != rule.ScopeGlobal && rapid.Bool().Draw(t, "from") { // others may be removed
			exempt.From = []string{out[0].Name}
		}
		out = append(out, exempt)
	}
	return out
})

var (
	texts = rapid.Custom(func(t *rapid.T) rule.Text {
		op := rapid.SampledFrom([]rule.Op{rule.OpExact, rule.OpPrefix, rule.OpRegex}).Draw(t, "op")
		return rule.Text{Op: op, Arg: "/" + rapid.StringMatching(`[a-z"\\\\é]{0,4}`).Filter(func(s string) bool { return op != rule.OpRegex || !strings.Contains(s, `\`) }).Draw(t, "arg")}
	})
	conditions = rapid.Custom(func(t *rapid.T) rule.Match {
		m := rule.Match{
			Methods: rapid.SliceOfN(rapid.SampledFrom([]string{"GET", "PUT"}), 0, 2).Draw(t, "methods"),
			Hosts:   rapid.SliceOfN(rapid.SampledFrom([]string{"a.B", "*.c", "[::1]"}), 0, 2).Draw(t, "hosts"),
			Paths:   rapid.SliceOfN(texts, 0, 2).Draw(t, "paths"),
		}
		if len(m.Paths) > 0 {
			m.Ignore = rule.Spelling(rapid.IntRange(0, 7).Draw(t, "ignore"))
		}
		for _, f := range m.Fields() {
			for _, name := range rapid.SliceOfNDistinct(word, 0, 2, rapid.ID).Draw(t, "names") {
				if name != "host" {
					*f.List = append(*f.List, rule.Named{Name: name, Text: rapid.OneOf(texts, rapid.Just(rule.Text{Op: rule.OpPresent}), rapid.Just(rule.Text{Op: rule.OpAbsent})).Draw(t, "text")})
				}
			}
		}
		for _, text := range rapid.SliceOfN(rapid.SampledFrom([]string{"10.0.0.0/8", "::/0", "fd00::1", "::ffff:10.0.0.0/104"}), 0, 2).Draw(t, "networks") {
			p, _ := ip.ParsePrefix(text)
			m.Clients = append(m.Clients, p)
			m.TrustedHops = rapid.IntRange(0, 2).Draw(t, "hops")
		}
		m.Regions = rapid.SliceOfN(word, 0, 2).Draw(t, "regions")
		m.Until = limit.Second * limit.Micros(rapid.Int64Range(0, 253402300799).Draw(t, "until"))
		return m
	})
	// keyed also have what an exempt rule, or one without key, must not have.
	keyed = rapid.Custom(func(t *rapid.T) rule.Match {
		m := conditions.Draw(t, "match")
		if from := rapid.IntRange(-50, 98).Draw(t, "from"); from >= 0 {
			m.Percent = rule.Percent{From: from, To: rapid.IntRange(from+1, 99).Draw(t, "to")}
		}
		m.Not = rapid.SliceOfN(conditions.Filter(func(m rule.Match) bool { return !m.Empty() }), 0, 2).Draw(t, "not")
		return m
	})
	sources = rapid.Custom(func(t *rapid.T) rule.Source {
		s := rule.Source{From: rapid.SampledFrom([]rule.From{rule.FromClientIP, rule.FromHeader, rule.FromQuery, rule.FromCookie, rule.FromClaim, rule.FromLabel, rule.FromHost, rule.FromSAN, rule.FromRoute, rule.FromRegion}).Draw(t, "from")}
		if s.From == rule.FromClientIP {
			s.IPv6Prefix, s.TrustedHops = rapid.IntRange(0, 128).Draw(t, "prefix"), rapid.IntRange(0, 16).Draw(t, "hops")
		} else if s.From.Named() {
			s.Name = "x-" + word.Draw(t, "name")
		}
		return s
	})
	parts = rapid.Custom(func(t *rapid.T) rule.Part {
		p := rule.Part(rapid.SliceOfN(sources, 0, rule.MaxSources-1).Draw(t, "sources"))
		if last := rapid.SampledFrom([]rule.From{rule.FromPath, rule.FromMethod, rule.FromConst, rule.FromHeader}).Draw(t, "last"); last == rule.FromConst || last == rule.FromHeader {
			p = append(p, rule.Source{From: last, Name: word.Draw(t, "name")})
		} else {
			p = append(p, rule.Source{From: last})
		}
		return p
	})
)

// sheds have no limit.
var sheds = rapid.Custom(func(t *rapid.T) rule.Rule {
	some := conditions.Filter(func(m rule.Match) bool { return !m.Empty() })
	s := &rule.Shed{
		Capacity: rapid.Int64Range(1, rule.MaxCapacity).Draw(t, "capacity"), Profile: shed.Profile(rapid.IntRange(0, 1).Draw(t, "profile")),
		Success: rapid.Int64Range(0, 100).Draw(t, "success"),
	}
	for range rapid.IntRange(0, 2).Draw(t, "classes") {
		s.Classes = append(s.Classes, rule.ShedClass{Class: shed.Class(rapid.IntRange(0, 3).Draw(t, "class")), When: some.Draw(t, "when")})
	}
	share := int64(0)
	for c := range shed.Critical {
		share += rapid.Int64Range(0, 33).Draw(t, "share")
		s.Shares[c] = share
	}
	return rule.Rule{
		Name: word.Draw(t, "name"), Mode: rule.Mode(rapid.IntRange(0, 2).Draw(t, "mode")), Match: conditions.Draw(t, "match"),
		Key: rapid.SliceOfN(parts, 0, 2).Draw(t, "key"), Shed: s,
		Headers: rapid.SampledFrom([]rule.Headers{0, rule.XUnix, rule.HeadersOff}).Draw(t, "headers"), LiveOff: rapid.Bool().Draw(t, "live"),
	}
})

var legal = rapid.Custom(func(t *rapid.T) rule.Rule {
	r := rule.Rule{
		Name:        word.Draw(t, "name"),
		Mode:        rule.Mode(rapid.IntRange(0, 2).Draw(t, "mode")),
		Match:       keyed.Draw(t, "match"),
		Key:         rapid.SliceOfN(parts, 1, 3).Draw(t, "key"),
		Limits:      []rule.Variant{{Limit: limit.Spec{Algorithm: limit.Algorithm(rapid.IntRange(0, 4).Draw(t, "algorithm")), Count: rapid.Int64Range(50, 10_000).Draw(t, "count")}}},
		Consistency: lease.Consistency(rapid.IntRange(0, 2).Draw(t, "consistency")),
		OnFailure:   lease.OnFailure(rapid.IntRange(0, 2).Draw(t, "on_failure")),
		Timeout:     limit.Millisecond * limit.Micros(rapid.IntRange(0, 1000).Draw(t, "timeout")),
		Headers:     rapid.SampledFrom([]rule.Headers{0, rule.Draft, rule.XUnix, rule.Draft | rule.XUnix, rule.HeadersOff}).Draw(t, "headers"),
		Refusal: refusal.Form{
			Status: rapid.SampledFrom([]int{0, 400, 429, 599}).Draw(t, "refusal.status"), GRPCStatus: rapid.IntRange(0, 16).Draw(t, "grpc_status"),
		},
		RetryJitter: rapid.Int64Range(0, 100).Draw(t, "retry_jitter"),
		LiveOff:     rapid.Bool().Draw(t, "live"),
		Cost:        rule.Cost{Default: rapid.Int64Range(0, 20).Draw(t, "cost")},
	}
	if rapid.Bool().Draw(t, "body") {
		r.Refusal.ContentType = rapid.SampledFrom(refusal.ContentTypes[:]).Draw(t, "content_type")
		r.Refusal.Body = rapid.SampledFrom([]string{`{"wait":{retry_after}}`, `"é"`}).Draw(t, "body")
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
		r.Scope = rule.ScopeGlobal
		if spec.Algorithm == limit.TokenBucket || spec.Algorithm == limit.FixedWindow {
			r.Fair = rule.Fair(rapid.IntRange(0, 1).Draw(t, "fair"))
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
	for i, when := range rapid.SliceOfN(keyed.Filter(func(m rule.Match) bool { return !m.Empty() }), 0, 2).Draw(t, "overrides") {
		other := *spec
		other.Count++
		if other.Burst != 0 {
			other.Burst++
		}
		r.Limits = append(r.Limits, rule.Variant{Name: []string{"", "second"}[i], When: when, Limit: other})
	}
	return r
})

// TestRoundTrip: the compiled form is taken, means the same, and is its own
// compiled form.
func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		regions := weights.Draw(t, "regions")
		seed := rapid.Uint64Range(0, 1<<53-1).Draw(t, "seed")
		set, problems := check.Rules(slices.DeleteFunc(rules.Draw(t, "rules"), func(r rule.Rule) bool {
			return r.Scope == rule.ScopeGlobal && r.OnFailure == lease.FailureLocal && len(regions) == 0
		}), regions, seed)
		if set == nil {
			t.Fatal(problems)
		}
		again, err := read.JSON(set.Encode())
		if err != nil {
			t.Fatalf("%s: %v", set.Encode(), err)
		}
		if string(again.Encode()) != string(set.Encode()) || again.Version != set.Version {
			t.Errorf("decoded  %s\nfrom     %s", again.Encode(), set.Encode())
		}
		if got, want := fmt.Sprintf("%+v", *again.Inputs()), fmt.Sprintf("%+v", *set.Inputs()); got != want || again.Seed() != set.Seed() {
			t.Errorf("inputs %s, seed %d, want %s, %d", got, again.Seed(), want, set.Seed())
		}
		if !slices.Equal(again.Regions(), set.Regions()) {
			t.Errorf("regions %v, want %v", again.Regions(), set.Regions())
		}
		for i := range set.Len() {
			if got, want := stated(again.Rule(i)), stated(set.Rule(i)); got != want {
				t.Errorf("rule %d is\n%s\nwant\n%s", i, got, want)
			}
		}
	})
}

// stated is all that a rule states.
func stated(r *rule.Rule) string {
	plain := *r
	plain.Shed = nil // a pointer
	return fmt.Sprintf("%+v %+v", plain, r.Shed)
}

// FuzzDecode: no bytes break the decoder, and what it takes is stable.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"rules":[]}`))
	f.Add([]byte(`{"client_ip":{"trusted_hops":1},"rules":[{"name":"a","match":{"method":["GET"],"host":["*.a"],"path":[{"prefix":"/a"}],"header":{"x":{"present":true}}},"key":["client_ip",{"header":"u","else":{"query":"q"}}],"limit":{"count":5,"per":"1m","burst":6},"overrides":[{"when":{"header":{"t":"g"}},"limit":"7/1m"}],"cost":{"header":"c","max":5},"on_failure":{"action":"local","expected_holders":3},"lease":{"interval":"200ms","ttl":"5s"},"headers":["draft","x-unix"],"refusal":{"status":403,"body":"{\"rule\":\"{rule}\"}","content_type":"application/json","grpc_status":7},"retry_jitter":10,"live":"off"}]}`))
	f.Add([]byte(`{"seed":7,"rules":[{"name":"a","match":{"path":{"template":"/a/{id}"},"query":{"v":"1"},"cookie":{"c":{"present":false}},"claim":{"a.b":"1"},"label":{"l":{"prefix":"x"}},"client_ip":["10.0.0.0/8","fd00::1"],"trusted_hops":1,"region":"eu","percent":{"from":20,"to":100},"until":"2026-12-01T00:00:00Z","not":[{"percent":3}]},"key":[{"segment":"id"},{"cookie":"c","else":{"claim":"sub","else":{"label":"l","else":"san"}}},"host","route","region"],"limit":"5/1m"}]}`))
	f.Add([]byte(`{"rules":[{"name":"a","key":[],"limit":3,"algorithm":"concurrency"}]}`))
	f.Add([]byte(`{"rules":[{"name":"a","mode":"shadow","match":{"path":{"prefix":"/a"}},"key":[{"header":"u","else":"client_ip"}],"shed":{"capacity":200,"profile":"fast","success":95,"classes":[{"class":"critical","match":{"path":"/a"}},{"class":"bulk","match":{"not":{"cookie":{"c":"1"}}}}],"shares":{"normal":90,"low":9}},"headers":"off","live":"off"},{"name":"b","mode":"exempt","from":["a"]}]}`))
	f.Add([]byte(`{"regions":{"eu":3,"us":1},"rules":[{"name":"a","key":[],"limit":"3/1m","scope":"global","on_failure":"allow"}]}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		set, err := read.JSON(doc)
		if err != nil {
			if set != nil || err.Error() == "" {
				t.Fatalf("set %v, error %q", set, err)
			}
			return
		}
		again, err := read.JSON(set.Encode())
		if err != nil {
			t.Fatalf("%s: %v", set.Encode(), err)
		}
		if again.Version != set.Version {
			t.Errorf("%s becomes %s", set.Encode(), again.Encode())
		}
		q, m := rule.Request{Method: "GET", Host: "x.a", Path: "/a?q=1", Peer: "::1"}, rule.Matches{}
		q.Headers = make([]rule.Value, len(set.Inputs().Headers))
		set.Match(&q, &m)
	})
}

// TestUntilIsAnEnd: a time that has long passed ends what has it; it is not the same as none.
func TestUntilIsAnEnd(t *testing.T) {
	for _, in := range []string{`"match":{"until":"1970-01-01T00:00:00Z"}`, `"overrides":[{"key":["a"],"limit":"unlimited","until":"1970-01-01T01:00:00+01:00"}]`} {
		_, err := read.JSON([]byte(`{"rules":[{"name":"a","key":["host"],"limit":"5/1m",` + in + `}]}`))
		if err == nil || !strings.Contains(err.Error(), "until: ") {
			t.Errorf("%s: %v", in, err)
		}
		if _, err = read.JSON([]byte(`{"rules":[{"name":"a","key":["host"],"limit":"5/1m",` + strings.Replace(in, "00Z", "01Z", 1) + `}]}`)); strings.Contains(in, "Z") && err != nil {
			t.Errorf("a second later: %v", err)
		}
	}
}
