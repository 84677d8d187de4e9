package rule_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check/checktest"
	"github.com/weirlimit/weir/internal/rule/read"
	"github.com/weirlimit/weir/test/kit/fatal"
	"pgregory.net/rapid"
)

// perMinute returns the limits of a rule that has only one.
func perMinute() []rule.Variant {
	return []rule.Variant{{Limit: limit.Spec{Count: 5, Period: limit.Minute}}}
}

// decode reads rules from JSON.
func decode(t rapid.TB, doc string) *rule.Set {
	t.Helper()
	return fatal.Get(read.JSON([]byte(doc)))(t)
}

// request makes a request of ":method", "GET", ... as the edge does.
func request(set *rule.Set, headers ...string) *rule.Request {
	q := new(rule.Request)
	q.Reset(set.Inputs())
	for i := 0; i < len(headers); i += 2 {
		q.Add(set.Inputs(), headers[i], headers[i+1])
	}
	return q
}

// TestMatch: a condition holds for the requests in yes, and for none of those in no.
func TestMatch(t *testing.T) {
	for _, test := range []struct{ name, match, yes, no string }{
		{"everything", `{}`, `none | :method GET & :path / & :authority a`, ``},
		{"method", `{"method":["GET","HEAD"]}`, `:method GET | :method HEAD`, `none | :method get | :method POST`},
		{"method in any case", `{"method":["GET","PUT"],"ignore_case":true}`, `:method put | :method gEt | :method GET`, `none | :method POST`},
		{"exact path", `{"path":"/login"}`, `:path /login | :path /login?next=/ | :path /login#top`, `none | :path /login/ | :path /Login | :path /logi | :path /x?/login`},
		{"prefix", `{"path":{"prefix":"/v1/"}}`, `:path /v1/ | :path /v1/users?a=b`, `none | :path /v1 | :path /v10/ | :path /v1?x=/ | :path /a/v1/`},
		{"regular expression", `{"path":{"regex":"/users/[0-9]+|/me"}}`, `:path /users/17 | :path /users/17?x | :path /me`, "none | :path /users/17/x | :path /users/ | :path /a/me | :path /me\n"},
		{
			"template /v1/users/{id}", `{"path":{"template":"/v1/users/{id}"}}`,
			`:path /v1/users/7 | :path /v1/users/a;b | :path /v1/users/%2F`,
			`none | :path /v1/users | :path /v1/users/ | :path /v1/users/7/ | :path /v1/users/7/x | :path /v1/Users/7 | :path /v2/users/7 | :path /v1/users/7x/y`,
		},
		{
			"template /{tenant}/x/{id}/y", `{"path":{"template":"/{tenant}/x/{id}/y"}}`,
			`:path /a/x/b/y`,
			`none | :path /a/x//y | :path //x/b/y | :path /a/x/b/yy | :path /a/x/b`,
		},
		{"template with a slash", `{"path":{"template":"/a/{b}/"}}`, `:path /a/x/`, `:path /a/x | :path /a//`},
		{"template of text", `{"path":{"template":"/plain"}}`, `:path /plain`, `:path /plain/ | :path /plainer`},
		{
			"host", `{"host":"API.example.com."}`,
			`:authority api.example.com | :authority Api.Example.Com:8080 | :authority api.example.com.`,
			`none | :authority example.com | :authority xapi.example.com`,
		},
		{
			"hosts below", `{"host":["*.example.com"]}`,
			`:authority a.example.com | :authority a.b.EXAMPLE.com:1`,
			`none | :authority example.com | :authority .example.com | :authority badexample.com | :authority a.example.com.evil.org`,
		},
		{"IPv6 host", `{"host":"[::1]"}`, `:authority [::1] | :authority [::1]:80`, `:authority [::2] | :authority ::1`},
		{"header", `{"header":{"X-Tier":"gold"}}`, `x-tier gold`, `none | x-tier Gold | x-tier gold & x-tier free | x-tier free & x-tier gold`},
		{"query", `{"query":{"v":"2"}}`, `:path /a?v=2 | :path /?x=1&%76=%32&y`, `none | :path /v=2 | :path /?v=22 | :path /?V=2 | :path /?v=2&v=3 | :path /?v=1&v=2 | :path /#?v=3`},
		{"query with any characters", `{"query":{"q":{"regex":"lo.*"}}}`, `:path /?q=login | :path /?q=lo%0Agin | :path /?q=lo%00%ff`, `:path /?q=%0Alogin`},
		{"query there", `{"query":{"debug":{"present":true},"q":{"present":false}}}`, `:path /?debug | :path /?debug=&x`, `:path / | :path /debug | :path /?debug&q | :path /?q=1`},
		{
			"cookie", `{"cookie":{"beta":"1"}}`,
			"cookie beta=1 | cookie a=2; beta=1;c | cookie a=2 & cookie beta=1 | cookie \tbeta = 1 ;",
			`none | cookie Beta=1 | cookie xbeta=1 | cookie beta="1" | cookie a=beta=1 | cookie beta=1; beta=2 | cookie beta=1 & cookie beta=1 | cookie a=1,beta=1`,
		},
		{
			"cookie as sent", `{"cookie":{"a":{"regex":"\"x, y\""},"b":{"present":true},"c":{"present":false}}}`,
			`cookie a="x, y"; b= | cookie b; a="x, y"`,
			`cookie a="x, y"; b=; c=1 | cookie a="x, y"`,
		},
		{"region and label", `{"region":["eu","us"],"label":{"tier":{"prefix":"edge"},"canary":{"present":false}}}`, `:path /`, ``},
		{"claims", `{"claim":{"plan":"gold","realm.level":{"regex":"[0-9]+"},"gone":{"present":false}}}`, `:path /`, ``},
		{"metadata", `{"metadata":{"ai:model":{"prefix":"l"},"ai:tokens":"7","ai:gone":{"present":false}}}`, `:path /`, ``},
		{"metadata of another namespace", `{"metadata":{"x:model":"large"}}`, ``, `:path /`},
		{
			"networks", `{"client_ip":["10.0.0.0/8","fd00::/8","192.0.2.1"]}`,
			`peer 10.1.2.3:443 | peer [fd12::1]:1 | peer 192.0.2.1 | peer ::ffff:10.9.9.9`,
			`none | peer 11.0.0.1 | peer fe00::1 | peer 192.0.2.2 | peer a.sock | x-forwarded-for 10.1.2.3`,
		},
		{"mapped network", `{"client_ip":"::ffff:10.0.0.0/104"}`, `peer 10.1.2.3:443`, `peer 11.1.2.3:443`},
		{
			"networks behind a proxy", `{"client_ip":"10.0.0.0/8","trusted_hops":2}`,
			`x-forwarded-for 1.1.1.1, 10.0.0.1, 192.0.2.1 | peer 10.0.0.2`,
			`x-forwarded-for 10.0.0.1, 1.1.1.1, 192.0.2.1 & peer 10.0.0.2`,
		},
		{"until", `{"until":"1970-01-01T00:00:05Z"}`, `none | now 4999999`, `now 5000000 | now 5000001`},
		{
			"not", `{"path":{"prefix":"/v1/"},"not":[{"path":"/v1/healthz"},{"method":"GET","header":{"x-a":"1"}}]}`,
			`:path /v1/x & :method GET | :path /v1/x & :method PUT & x-a 1`,
			`:path /x | :path /v1/healthz | :path /v1/x & :method GET & x-a 1`,
		},
	} {
		set := decode(t, `{"rules":[{"name":"a","match":`+test.match+`,"key":[],"limit":"5/1m"}]}`)
		var m rule.Matches
		for requests, want := range map[string]int{test.yes: 1, test.no: 0} {
			for request := range strings.SplitSeq(requests, " | ") {
				if set.Match(placed(set, pairs(request)...), &m); requests != "" && len(m.Hits) != want {
					t.Errorf("%s, %q: %d hits, want %d", test.name, request, len(m.Hits), want)
				}
			}
		}
	}
}

// pairs are the names and values of headers: ":method GET & :path /"; none has none.
func pairs(request string) (list []string) {
	for header := range strings.SplitSeq(request, " & ") {
		if name, value, ok := strings.Cut(header, " "); ok {
			list = append(list, name, value)
		}
	}
	return list
}

// placed makes a request at a PoP; "peer" and "now" among the headers are what they say.
func placed(set *rule.Set, headers ...string) *rule.Request {
	q := request(set, headers...)
	q.PoP = &rule.PoP{Region: "eu", Labels: map[string]string{"tier": "edge-1", "zone": ""}}
	for i := 0; i < len(headers); i += 2 {
		switch headers[i] {
		case "peer":
			q.Peer = headers[i+1]
		case "now":
			n, _ := strconv.ParseInt(headers[i+1], 10, 64)
			q.Now = limit.Micros(n)
		}
	}
	known := map[string]string{"claim plan": "gold", "claim realm.level": "7", "claim sub": "ann", "metadata ai:model": "large", "metadata ai:tokens": "7"}
	for i, s := range set.Inputs().Metadata {
		text, ok := known[s.From.String()+" "+s.Name]
		q.Metadata[i] = rule.Value{Text: text, Present: ok}
	}
	return q
}

// TestLimit: each variant has its limit, in the compiled form, too; one that is unlimited has that of the rule.
func TestLimit(t *testing.T) {
	set := decode(t, `{"rules":[{"name":"a","key":[],"limit":"5/1m","overrides":[{"when":{"method":"GET"},"limit":"50/1m"},{"when":{"method":"PUT"},"limit":"unlimited"}]}]}`)
	for _, set := range []*rule.Set{set, decode(t, string(set.Encode()))} {
		for variant, want := range map[int]int64{-1: 0, 0: 5, 1: 50, 2: 5, 3: 0} {
			l := set.Limit(0, variant)
			if (l == nil) != (want == 0) || l != nil && (l.Spec().Count != want || set.Rule(0).Limits[variant].Unlimited != (variant == 2)) {
				t.Errorf("limit of variant %d is %v, want %d", variant, l, want)
			}
		}
	}
}

// TestOverrides: the first override whose condition holds counts. One that is unlimited lifts the rule.
func TestOverrides(t *testing.T) {
	set := decode(t, `{"rules":[{"name":"a","match":{"path":{"prefix":"/a"}},"key":[],"limit":"5/1m","overrides":[
		{"when":{"header":{"tier":"gold"},"not":{"method":"PUT"}},"limit":"50/1m"},
		{"when":{"path":"/a/free","query":{"x":{"present":true}}},"limit":"unlimited"},
		{"when":{"header":{"tier":{"prefix":"g"}}},"limit":"40/1m"}]}]}`)
	for headers, want := range map[string]int{ // the variant; -1: the rule does not apply
		":path /b tier gold": -1, ":path /a": 0, ":path /a tier gold": 1, ":path /a tier gold :method PUT": 3, ":path /a tier green": 3, ":path /a tier tin": 0,
		":path /a/free": 0, ":path /a/free?x": -1, ":path /a/free?x tier gold": 1, ":path /a/free?x tier green": -1,
	} {
		var m rule.Matches
		set.Match(request(set, strings.Fields(headers)...), &m)
		if got := append(m.Hits, rule.Hit{Variant: -1})[0].Variant; got != want {
			t.Errorf("%s: override %d, want %d", headers, got, want)
		}
	}
}

// TestPlaceOfAKey: the place of a key among a hundred is that of its hash with the seed and the name of the rule, which
// Python computed as its documentation reads.
func TestPlaceOfAKey(t *testing.T) {
	for _, c := range []struct {
		seed      int
		name, key string
		place     int
	}{{0, "a", "ann", 9}, {0, "a", "bob", 72}, {0, "a@x", "192.0.2.1", 67}, {7, "a", "ann", 47}, {0, "b", "ann", 86}} {
		for from, want := range map[int]int{c.place - 1: 0, c.place: 1, c.place + 1: 0} {
			set := decode(t, fmt.Sprintf(`{"seed":%d,"rules":[{"name":%q,"match":{"percent":{"from":%d,"to":%d}},"key":[{"header":"x"}],"limit":"5/1m"}]}`, c.seed, c.name, from, from+1))
			var m rule.Matches
			if set.Match(request(set, "x", c.key), &m); len(m.Hits) != want {
				t.Errorf("%+v: %d hits from %d to %d", c, len(m.Hits), from, from+1)
			}
		}
	}
}

func TestCost(t *testing.T) {
	set := decode(t, `{"rules":[
		{"name":"one","key":[],"limit":"100/1m"},
		{"name":"fixed","key":[],"limit":"100/1m","cost":7},
		{"name":"header","key":[],"limit":"100/1m","cost":{"header":"X-Cost","default":2,"max":50}},
		{"name":"metadata","key":[],"limit":"100/1m","cost":{"metadata":{"namespace":"ai","key":"tokens"},"default":2,"max":50}}]}`)
	for _, test := range []struct {
		header string
		want   int64
	}{
		{"", 2}, {"1", 1}, {"50", 50}, {"51", 50}, {"007", 7}, {"0", 1}, {"-1", 50}, {"+1", 50}, {"1.5", 50},
		{"3,7,1", 7}, {" 3 ,\t7 ", 7}, {"3,,7", 7}, {",", 2}, {"3,x", 50}, {"0,0", 1}, {"3;7", 50}, {"1 1", 50}, {" 1", 1}, {"many", 50}, {strings.Repeat("9", 40), 50}, {strings.Repeat("0", 40), 1},
	} {
		var m rule.Matches
		q := request(set, "x-cost", test.header)
		q.Metadata[0] = rule.Value{Text: test.header, Present: true}
		set.Match(q, &m)
		if got := [4]int64{m.Hits[0].Cost, m.Hits[1].Cost, m.Hits[2].Cost, m.Hits[3].Cost}; got != [4]int64{1, 7, test.want, test.want} {
			t.Errorf("%q: costs %v, want 1, 7 and twice %d", test.header, got, test.want)
		}
		q.Metadata[0] = rule.Value{Unreadable: true} // such as a fraction
		if set.Match(q, &m); m.Hits[3].Cost != 50 {
			t.Errorf("metadata that cannot be read costs %d", m.Hits[3].Cost)
		}
	}
}

// fetcher is a [rule.Fetcher] that fetches all by its name.
type fetcher struct {
	inputs *rule.Inputs
	fetch  func(name string) rule.Value
}

func (f fetcher) Peer() string              { return f.fetch("peer").Text }
func (f fetcher) SAN() string               { return f.fetch("san").Text }
func (f fetcher) Route() string             { return f.fetch("route").Text }
func (f fetcher) Metadata(i int) rule.Value { return f.fetch(f.inputs.Metadata[i].Name) }

// TestFetchedOnlyWhenNeeded: what a request has beside its headers costs the edge a host call, so it is fetched
// once, and only for a rule that all else lets apply.
func TestFetchedOnlyWhenNeeded(t *testing.T) {
	const every = `"client_ip",{"claim":"sub"},"san","route"`
	for _, c := range []struct{ match, key, path, want string }{
		{`"path":"/a"`, every, "/b", ""},
		{`"path":"/a"`, every, "/a", "peer sub san route"},
		{`"client_ip":"10.0.0.0/8","claim":{"sub":"ann"}`, every, "/a", "peer sub san route"},
		{`"client_ip":"11.0.0.0/8","claim":{"sub":"ann"}`, every, "/a", "peer"},
		{`"claim":{"plan":"x","sub":"ann"}`, every, "/a", "plan"},
		{`"query":{"v":"1"},"claim":{"sub":"ann"}`, every, "/a", ""},
		{`"cookie":{"c":"1"},"client_ip":"10.0.0.0/8"`, every, "/a", ""},
		{`"label":{"tier":"1"},"client_ip":"10.0.0.0/8"`, every, "/a", ""},
		{`"region":"eu","client_ip":"10.0.0.0/8"`, every, "/a", ""},
		{`"until":"1970-01-01T00:00:01Z","client_ip":"10.0.0.0/8"`, every, "/a?now", ""},
		{`"not":{"path":"/a"},"client_ip":"10.0.0.0/8"`, every, "/a", ""},
		{`"not":{"path":"/b","client_ip":"10.0.0.0/8"}`, `{"const":"c"}`, "/a", ""},
		{`"not":{"path":"/a","client_ip":"10.0.0.0/8"}`, `{"const":"c"}`, "/a", "peer"},
		{`"path":"/a"`, `{"claim":"sub","else":"client_ip"}`, "/a", "sub"},
		{`"path":"/a"`, `{"claim":"plan","else":"client_ip"}`, "/a", "plan peer"},
		{`"metadata":{"ai:model":"large"}`, every, "/a", "ai:model"},
		{`"path":"/a"`, `{"metadata":{"namespace":"ai","key":"model"},"else":"client_ip"}`, "/a", "ai:model peer"},
	} {
		set := decode(t, `{"rules":[{"name":"a","match":{`+c.match+`},"key":[`+c.key+`],"limit":"5/1m"},{"name":"b","match":{`+c.match+`},"key":[`+c.key+`],"limit":"5/1m"}]}`)
		var fetched []string
		q, m := request(set), rule.Matches{}
		q.Fetch = fetcher{set.Inputs(), func(name string) rule.Value {
			fetched = append(fetched, name)
			text, ok := map[string]string{"peer": "10.0.0.1:80", "san": "s", "route": "r", "sub": "ann"}[name]
			return rule.Value{Text: text, Present: ok}
		}}
		for range 2 { // a request forgets the one before
			q.Reset(set.Inputs())
			q.Path, fetched = c.path, nil
			if c.path == "/a?now" {
				q.Now = 2 * limit.Second
			}
			if set.Match(q, &m); strings.Join(fetched, " ") != c.want {
				t.Errorf("%s, key %s, %s: fetched %q, want %q", c.match, c.key, c.path, fetched, c.want)
			}
		}
	}
}

// TestIndexLosesNothing compares what the index lets through, what matches, and what a path excludes
// with an evaluation of every rule.
func TestIndexLosesNothing(t *testing.T) {
	segment := rapid.SampledFrom([]string{"", "a", "b", "ab", "A", "a;b", "..;", ";"})
	path := rapid.Custom(func(t *rapid.T) string {
		return "/" + strings.Join(rapid.SliceOfN(segment, 0, 3).Draw(t, "segments"), "/")
	})
	text := rapid.Custom(func(t *rapid.T) rule.Text {
		return rule.Text{Op: rapid.SampledFrom([]rule.Op{rule.OpExact, rule.OpPrefix, rule.OpRegex, rule.OpTemplate}).Draw(t, "op"), Arg: strings.ReplaceAll(path.Draw(t, "arg"), ";", "b")}
	})
	rapid.Check(t, func(t *rapid.T) {
		var rules []rule.Rule
		for i := range rapid.IntRange(1, 130).Draw(t, "rules") {
			rules = append(rules, rule.Rule{
				Name:   "r" + strings.Repeat("x", i%50) + string(rune('a'+i/50)),
				Mode:   rapid.SampledFrom([]rule.Mode{rule.Mode(0), rule.Shadow, rule.Off}).Draw(t, "mode"),
				Match:  spelled(t, rule.Match{Paths: rapid.SliceOfN(text, 1, 2).Draw(t, "paths")}),
				Limits: perMinute(),
			})
		}
		set := fatal.Get(checktest.New(rules))(t)
		q, m := rule.Request{Path: path.Draw(t, "path")}, rule.Matches{}
		set.Match(&q, &m)
		var got, want []int
		for _, h := range m.Hits {
			got = append(got, h.Rule)
		}
		for i := range rules {
			if rules[i].Mode != rule.Off && set.Holds(i, &q) {
				want = append(want, i)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: matched %v, want %v", q.Path, got, want)
		}
		excludes := set.Excludes(&q, &m)
		if excludes && (len(want) > 0 || !set.Inputs().ByPath) {
			t.Errorf("%q: excluded by its path, though %v apply, or some rule applies to any path", q.Path, want)
		}
	})
}

func spelled(t *rapid.T, m rule.Match) rule.Match {
	if rapid.Bool().Draw(t, "everything") {
		return rule.Match{}
	}
	m.Ignore = rule.Spelling(rapid.IntRange(0, 7).Draw(t, "ignore"))
	return m
}

// TestConditionsDoNotAllocate: no condition, source or cost allocates, but for a regular expression.
func TestConditionsDoNotAllocate(t *testing.T) {
	const users = `"path":{"template":"/{u}/{id}"}`
	for _, c := range []struct{ match, key string }{
		{`"query":{"v":"2","w":{"present":true}}`, `{"query":"v"}`},
		{`"cookie":{"b":"1","a":{"prefix":"x"}}`, `{"cookie":"a"}`},
		{`"claim":{"plan":"gold"}`, `{"claim":"sub"}`},
		{`"label":{"tier":"edge-1"},"region":["us","eu"]`, `"region",{"label":"tier"},"route","san"`},
		{`"client_ip":["192.0.2.0/24","fd00::/8"]`, `"client_ip"`},
		{`"client_ip":["10.0.0.0/8"],"trusted_hops":1`, `"host"`},
		{`"not":[{"path":"/b"},{"query":{"v":"3"}}],"until":"2026-12-01T00:00:00Z"`, `"method"`},
		{`"percent":{"to":99},"not":{"percent":{"from":99,"to":100}}`, `{"const":"c"}`},
		{`"method":"GET","host":"*.example.com","path":{"prefix":"/Users/"},"header":{"x-v":{"prefix":"1"}}`, `{"header":"x-v"},{"client_ip":{"trusted_hops":1}},"path"`},
		{users, `{"segment":"id"}`},
		{users + `,"ignore_case":true,"trailing_slash":"ignore"`, `{"segment":"u"},"path"`},
	} {
		set := decode(t, `{"rules":[{"name":"a","match":{`+c.match+`},"key":[`+c.key+`],"limit":"5/1m","cost":{"header":"x-cost","max":5},"overrides":[{"when":{`+c.match+`},"limit":"6/1m"}]}]}`)
		q := placed(set, ":method", "GET", ":authority", "A.example.com:80", ":path", "/Users/7?v=%32&w", "cookie", "a=xyz", "cookie", "b=1", "x-forwarded-for", "10.1.1.1", "x-v", "1", "x-cost", "3")
		q.Peer, q.SAN, q.Route = "[fd00::1]:443", "spiffe://a", "r"
		var m rule.Matches
		if n := testing.AllocsPerRun(100, func() { set.Match(q, &m) }); n != 0 || len(m.Hits) != 1 || m.Hits[0].Variant != 1 {
			t.Errorf("%s with key %s: %v allocations, hits %+v, want none and one with its override", c.match, c.key, n, m.Hits)
		}
	}
}

// FuzzMatch: no condition and no request breaks the matcher, and what the index and the path alone
// rule out does not apply.
func FuzzMatch(f *testing.F) {
	f.Add(`"path":{"template":"/a/{id}"},"ignore_case":true,"trailing_slash":"ignore","path_parameters":"ignore"`, `{"segment":"id"}`, "/A/x;y/", "", "", "")
	f.Add(`"not":[{"cookie":{"a":"1"}},{"percent":10}],"client_ip":"10.0.0.0/8"`, `{"cookie":"a","else":"host"}`, "/?a=%", "a=1;;=;a", "10.1.1.1", "h:1")
	f.Add(`"query":{"q":{"prefix":"x"}},"claim":{"a.b":"1"},"label":{"l":"1"},"region":"eu"`, `{"query":"q"},"region"`, "?q=x#", "=", "[::", "")
	f.Fuzz(func(t *testing.T, match, key, path, cookie, peer, host string) {
		set, err := read.JSON([]byte(`{"rules":[{"name":"a","match":{` + match + `},"key":[` + key + `],"limit":"50/1m","overrides":[{"when":{` + match + `},"limit":"51/1m"}]}]}`))
		if err != nil {
			return
		}
		q, m := request(set, ":path", path, ":authority", host, "cookie", cookie), rule.Matches{}
		q.Peer, q.PoP = peer, &rule.PoP{Region: "eu"}
		set.Match(q, &m)
		if n := len(m.Hits) + len(m.MissingKey); n > 0 && (!set.Holds(0, q) || set.Excludes(q, &rule.Matches{})) || n > 1 {
			t.Errorf("hits %+v, missing %v: it holds %v", m.Hits, m.MissingKey, set.Holds(0, q))
		}
		for _, h := range m.Hits {
			if len(h.Key) > rule.MaxKey {
				t.Errorf("a key of %d bytes", len(h.Key))
			}
		}
	})
}
