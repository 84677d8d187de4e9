package explain

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check"
	"github.com/weirlimit/weir/internal/rule/ip"
	"github.com/weirlimit/weir/internal/rule/read"
	"pgregory.net/rapid"
)

// making makes requests of ":method", "GET", ..., with the claim sub and the peer.
func making(now limit.Micros, region, peer, sub string, headers ...string) func(in *rule.Inputs) *rule.Request {
	return func(in *rule.Inputs) *rule.Request {
		q := new(rule.Request)
		q.Reset(in)
		for i := 0; i < len(headers); i += 2 {
			q.Add(in, headers[i], headers[i+1])
		}
		if at := slices.Index(in.Claims, "sub"); at >= 0 && sub != "" {
			q.Claims[at] = rule.Value{Text: sub, Present: true}
		}
		q.Now, q.Peer, q.PoP = now, peer, &rule.PoP{Region: region, Labels: map[string]string{"tier": region}}
		return q
	}
}

// Each clause is named when it is the first that fails, each other reason too.
func TestReasons(t *testing.T) {
	set, err := read.JSON([]byte(`{"rules":[
		{"name":"open","mode":"exempt","match":{"path":"/open"},"from":["a"]},
		{"name":"a","match":{"method":"GET","host":"h","path":[{"prefix":"/a"},"/open"],"until":"2001-01-01T00:00:00Z","region":["eu"],
			"header":{"x":"1"},"query":{"q":"1"},"cookie":{"c":"1"},"label":{"tier":"eu"},"not":[{"header":{"n":"1"}},{"percent":1}],
			"client_ip":["10.0.0.0/8"],"claim":{"sub":"s"}},
			"key":[{"header":"user"}],"limit":"5/1m","overrides":[{"name":"free","when":{"header":{"plan":"free"}},"limit":"unlimited"},{"when":{"header":{"plan":"none"}},"limit":"unlimited"}]},
		{"name":"off","mode":"off","key":[],"limit":"5/1m"},
		{"name":"other","match":{"path":"/open"},"key":[],"limit":"5/1m","overrides":[{"name":"none","when":{"method":"GET"},"limit":"unlimited"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	good := []string{":method", "GET", ":authority", "h", ":path", "/a?q=1", "x", "1", "cookie", "c=1", "user", "u"}
	change := func(name, value string) []string {
		headers := slices.Clone(good)
		for i := 0; i < len(headers); i += 2 {
			if headers[i] == name {
				headers[i+1] = value
				return headers
			}
		}
		return append(headers, name, value)
	}
	for want, q := range map[string]func(*rule.Inputs) *rule.Request{
		"applies":        making(0, "eu", "10.1.1.1", "s", good...),
		"method":         making(0, "eu", "10.1.1.1", "s", change(":method", "PUT")...),
		"host":           making(0, "eu", "10.1.1.1", "s", change(":authority", "i")...),
		"path":           making(0, "eu", "10.1.1.1", "s", change(":path", "/b?q=1")...),
		"until":          making(limit.Micros(1e15), "eu", "10.1.1.1", "s", good...),
		"region":         making(0, "us", "10.1.1.1", "s", good...),
		"header x":       making(0, "eu", "10.1.1.1", "s", change("x", "2")...),
		"query q":        making(0, "eu", "10.1.1.1", "s", change(":path", "/a?q=2")...),
		"cookie c":       making(0, "eu", "10.1.1.1", "s", change("cookie", "c=2")...),
		"not[0]":         making(0, "eu", "10.1.1.1", "s", change("n", "1")...),
		"client_ip":      making(0, "eu", "11.1.1.1", "s", good...),
		"claim sub":      making(0, "eu", "10.1.1.1", "", good...),
		"key":            making(0, "eu", "10.1.1.1", "s", change("user", "")...),
		"by open":        making(0, "eu", "10.1.1.1", "s", change(":path", "/open?q=1")...),
		"unlimited free": making(0, "eu", "10.1.1.1", "s", change("plan", "free")...),
		"unlimited 2":    making(0, "eu", "10.1.1.1", "s", change("plan", "none")...),
	} {
		all := Rules(set, q)
		v := all[1]
		got := v.Failed
		switch {
		case v.Applies():
			got = "applies"
		case v.ExemptBy != "":
			got = "by " + v.ExemptBy
		case v.Unlimited:
			got = "unlimited " + v.Override
		}
		if got != want || all[2].Failed != "mode" || all[2].Applies() || all[0].Applies() != (want == "by open") {
			t.Errorf("%+v, want %s, others %+v", v, want, all)
		}
		if v := all[3]; want == "by open" && (v.ExemptBy != "" || !v.Unlimited || v.Override != "none") {
			t.Errorf("open does not lift it: %+v", v)
		}
	}
	left := map[string]bool{}
	for i := range 1000 { // one of a hundred is among the one percent
		v := Rules(set, making(0, "eu", "10.1.1.1", "s", change("user", strings.Repeat("u", i%50+1)+string(rune('a'+i/50)))...))[1]
		left[v.Failed] = true
	}
	if !left["not[1]"] || !left[""] || len(left) != 2 {
		t.Errorf("of 1000 keys: %v", left)
	}
}

// joined is a match of clauses.
func joined(all []clause) (m rule.Match) {
	for _, c := range all {
		if c.keyed {
			c.match.Paths = nil // are there already
		}
		to, from := reflect.ValueOf(&m).Elem(), reflect.ValueOf(c.match)
		for i := range to.NumField() {
			switch f := to.Field(i); {
			case f.Kind() == reflect.Slice:
				f.Set(reflect.AppendSlice(f, from.Field(i)))
			case !from.Field(i).IsZero():
				f.Set(from.Field(i))
			}
		}
	}
	return m
}

var texts = rapid.SampledFrom([]rule.Text{{Arg: "a"}, {Arg: "b"}, {Op: rule.OpPrefix, Arg: "a"}, {Op: rule.OpPresent}, {Op: rule.OpAbsent}, {Op: rule.OpRegex, Arg: "a|b"}})

// condition draws clauses of each kind.
func condition(t *rapid.T, more bool) (m rule.Match) {
	for range rapid.IntRange(0, 3).Draw(t, "clauses") {
		switch rapid.IntRange(0, 8).Draw(t, "clause") {
		case 0:
			m.Methods = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"GET", "PUT"}), 1, 2, rapid.ID).Draw(t, "methods")
		case 1:
			m.Hosts = []string{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "host")}
		case 2, 3:
			m.Paths = []rule.Text{rapid.SampledFrom([]rule.Text{{Arg: "/a"}, {Op: rule.OpPrefix, Arg: "/a/"}, {Op: rule.OpRegex, Arg: "/[ab]"}}).Draw(t, "path")}
			m.Ignore = rule.Spelling(rapid.SampledFrom([]int{0, 0, 1}).Draw(t, "ignore")) * rule.IgnoreCase
		case 4:
			f := m.Fields()[rapid.IntRange(0, 4).Draw(t, "kind")]
			*f.List = []rule.Named{{Name: map[rule.From]string{rule.FromClaim: "sub", rule.FromLabel: "tier"}[f.From] + "", Text: texts.Draw(t, "text")}}
			if (*f.List)[0].Name == "" {
				(*f.List)[0].Name = "x"
			}
		case 5:
			p, _ := ip.ParsePrefix(rapid.SampledFrom([]string{"10.0.0.0/8", "192.0.2.1"}).Draw(t, "network"))
			m.Clients, m.TrustedHops = []ip.Prefix{p}, rapid.IntRange(0, 1).Draw(t, "hops")
		case 6:
			m.Regions = []string{rapid.SampledFrom([]string{"eu", "us"}).Draw(t, "region")}
		case 7:
			m.Percent = rule.Percent{To: rapid.IntRange(20, 80).Draw(t, "to")}
		case 8:
			m.Until = limit.Second * limit.Micros(rapid.IntRange(1, 3).Draw(t, "until"))
		}
	}
	if more && rapid.Bool().Draw(t, "with not") {
		if not := condition(t, false); !not.Empty() {
			m.Not = []rule.Match{not}
		}
	}
	return m
}

// rules draws rules: some exempt, off, and with overrides without a limit.
func rules(t *rapid.T) (all []rule.Rule) {
	for i := range rapid.IntRange(1, 5).Draw(t, "rules") {
		r := rule.Rule{Name: "r" + string(rune('a'+i)), Match: condition(t, true), Mode: rapid.SampledFrom([]rule.Mode{0, 0, 0, rule.Shadow, rule.Off, rule.Exempt}).Draw(t, "mode")}
		if r.Mode == rule.Exempt {
			r.Match.Percent = rule.Percent{}
			if r.Match.Not = nil; r.Match.Empty() {
				r.Match.Methods = []string{"GET"}
			}
			r.From = rapid.SampledFrom([][]string{nil, nil, nil, {"ra"}, {"rb"}}).Draw(t, "from")
			all = append(all, r)
			continue
		}
		r.Limits = []rule.Variant{anyLimit}
		r.Key = []rule.Part{{{From: rule.FromHeader, Name: "key"}}}
		if when := condition(t, true); !when.Empty() {
			v := anyLimit
			v.When, v.Name, v.Unlimited = when, "o", rapid.Bool().Draw(t, "unlimited")
			if v.Unlimited {
				v.Limit = r.Limits[0].Limit
			}
			r.Limits = append(r.Limits, v)
		}
		all = append(all, r)
	}
	return all
}

// TestAgainstMatch: whatever rules and requests there are, what applies is what Match finds, each other rule has one
// reason, and the clause that it names is the first one that makes Match find nothing.
func TestAgainstMatch(t *testing.T) {
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64Range(0, 3).Draw(t, "seed")
		set, problems := check.Rules(rules(t), nil, seed)
		if set == nil {
			t.Skip(problems)
		}
		for range 5 {
			of := making(limit.Second*limit.Micros(rapid.IntRange(0, 3).Draw(t, "now")), rapid.SampledFrom([]string{"eu", "us"}).Draw(t, "region"),
				rapid.SampledFrom([]string{"10.1.2.3", "192.0.2.1", ""}).Draw(t, "peer"), rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "sub"),
				":method", rapid.SampledFrom([]string{"GET", "put"}).Draw(t, "method"), ":authority", rapid.SampledFrom([]string{"a", "b"}).Draw(t, "host"),
				":path", rapid.SampledFrom([]string{"/a", "/A", "/a/b", "/b?x=a"}).Draw(t, "path"), "key", rapid.SampledFrom([]string{"", "k", "l", "m"}).Draw(t, "key"),
				"x-forwarded-for", rapid.SampledFrom([]string{"", "10.7.7.7", "198.51.100.1"}).Draw(t, "forwarded"),
				rapid.SampledFrom([]string{"x", "y", "cookie"}).Draw(t, "name"), rapid.SampledFrom([]string{"a", "b", "x=a"}).Draw(t, "value"))
			var m rule.Matches
			set.Match(of(set.Inputs()), &m)
			for i, v := range Rules(set, of) {
				at := slices.IndexFunc(m.Hits, func(h rule.Hit) bool { return h.Rule == i })
				if at >= 0 != (v.Hit != nil) || at >= 0 && !reflect.DeepEqual(m.Hits[at], *v.Hit) {
					t.Fatalf("%+v, and Match finds %+v", v, m.Hits)
				}
				reasons := 0
				for name, reason := range map[string]string{"failed": v.Failed, "exempt": v.ExemptBy, "unlimited": map[bool]string{true: v.Override}[v.Unlimited]} {
					if reason != "" {
						reasons++
						seen[name]++
					}
				}
				if v.Rule.Mode != rule.Exempt && (reasons == 0) != v.Applies() || reasons > 1 {
					t.Fatalf("%d reasons: %+v of %+v", reasons, v, v.Rule)
				}
				missing := slices.Contains(m.MissingKey, i)
				if missing && v.Failed != "key" || v.Failed == "key" && !missing && len(m.Exempt) == 0 {
					t.Fatalf("missing key %v: %+v", m.MissingKey, v)
				}
				if by, _ := set.Find(v.ExemptBy); v.ExemptBy != "" && !slices.Contains(m.Exempt, by) {
					t.Fatalf("exempt %v: %+v", m.Exempt, v)
				}
				all := clauses(v.Rule)
				applies := func(some []clause) bool {
					r := rule.Rule{Name: v.Rule.Name, Match: joined(some), Limits: []rule.Variant{anyLimit}}
					if slices.ContainsFunc(some, func(c clause) bool { return c.keyed }) {
						r.Key = keyOf(v.Rule)
					}
					return hits([]rule.Rule{r}, seed, of)[0] != nil
				}
				if whole := joined(all); v.Rule.Mode != rule.Exempt && whole.Ignore == v.Rule.Match.Ignore && !reflect.DeepEqual(whole, v.Rule.Match) {
					t.Fatalf("the clauses are %+v, of %+v", whole, v.Rule.Match)
				}
				failed := slices.IndexFunc(all, func(c clause) bool { return c.name == v.Failed })
				switch {
				case v.Failed == "" && !applies(all):
					t.Fatalf("no clause failed of %+v: %+v", v.Rule, v)
				case failed >= 0 && (!applies(all[:failed]) || applies(all[:failed+1])):
					t.Fatalf("%s is not the first that failed of %+v", v.Failed, v.Rule)
				case v.Failed != "" && failed < 0 && (v.Failed != "mode" || v.Rule.Mode != rule.Off):
					t.Fatalf("no clause is %s", v.Failed)
				}
				if at >= 0 {
					seen["applies"]++
				}
			}
		}
	})
	for _, what := range []string{"applies", "failed", "exempt", "unlimited"} {
		if seen[what] < 3 {
			t.Errorf("%v: it compares too little", seen)
		}
	}
}
