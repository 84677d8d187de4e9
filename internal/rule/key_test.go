package rule_test

import (
	"encoding/hex"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check/checktest"
	"github.com/weirlimit/weir/internal/rule/digest"
	"github.com/weirlimit/weir/test/kit/fatal"
)

const missing = "(missing)"

// key evaluates the key of the only rule of a document for a request with headers; [missing] if it has none.
func key(t *testing.T, parts string, q rule.Request, headers ...string) string {
	t.Helper()
	set := decode(t, `{"rules":[{"name":"a","key":`+parts+`,"limit":"5/1m"}]}`)
	q.Headers = make([]rule.Value, len(set.Inputs().Headers))
	for i := 0; i < len(headers); i += 2 {
		q.Add(set.Inputs(), headers[i], headers[i+1])
	}
	var m rule.Matches
	set.Match(&q, &m)
	if len(m.Hits)+len(m.MissingKey) != 1 {
		t.Fatalf("%d hits, %d missing a key: want one in all", len(m.Hits), len(m.MissingKey))
	}
	if len(m.MissingKey) == 1 {
		return missing
	}
	return string(m.Hits[0].Key)
}

func TestKey(t *testing.T) {
	long := strings.Repeat("x", rule.MaxKey+1)
	for _, test := range []struct {
		name    string
		parts   string
		request rule.Request
		headers []string
		want    string
	}{
		{name: "none", parts: `[]`, want: ""},
		{name: "header", parts: `[{"header":"X-User"}]`, headers: []string{"x-user", "alice"}, want: "alice"},
		{name: "header missing", parts: `[{"header":"x-user"}]`, want: missing},
		{name: "header empty", parts: `[{"header":"x-user"}]`, headers: []string{"x-user", ""}, want: missing},
		{name: "header twice", parts: `[{"header":"x-user"}]`, headers: []string{"x-user", "a", "x-user", "b"}, want: "a,b"},
		{name: "escapes", parts: `[{"header":"x-user"},{"const":"c"}]`, headers: []string{"x-user", `a|b\c`}, want: `a\|b\\c|c`},
		{name: "96 bytes", parts: `[{"header":"x-user"}]`, headers: []string{"x-user", long[:rule.MaxKey]}, want: long[:rule.MaxKey]},
		{name: "97 bytes", parts: `[{"header":"x-user"}]`, headers: []string{"x-user", long}, want: blake128(long)},
		{name: "97 bytes of parts", parts: `[{"header":"x-user"},{"const":"c"}]`, headers: []string{"x-user", long[:rule.MaxKey-1]}, want: blake128(long[:rule.MaxKey-1] + "|c")},
		{name: "else unused", parts: `[{"header":"x-user","else":"client_ip"}]`, request: rule.Request{Peer: "192.0.2.1:1"}, headers: []string{"x-user", "alice"}, want: "alice"},
		{name: "else", parts: `[{"header":"x-user","else":"client_ip"}]`, request: rule.Request{Peer: "192.0.2.1:1"}, want: `client_ip 192.0.2.1`},
		{name: "else's else", parts: `[{"header":"x-user","else":{"query":"u","else":{"const":"anon"}}}]`, want: `const anon`},
		{name: "like an else", parts: `[{"header":"x-user","else":{"query":"a b","else":"client_ip"}}]`, headers: []string{"x-user", "client_ip 192.0.2.1"}, want: `client_ip\x20192.0.2.1`},
		{name: "else with a blank", parts: `[{"header":"x-user","else":{"query":"a b","else":"client_ip"}}]`, request: rule.Request{Path: "/?a+b=client_ip+c"}, want: `query a\xffb client_ip\x20c`},
		{name: "no text", parts: `[{"query":"q"},{"const":"c"}]`, request: rule.Request{Path: "/?q=%0d%0a%1b[2J%00%ff|%5ch<é%c2%85%e2%80%a8"}, want: `\x0d\x0a\x1b[2J\x00\xff\|\\h<é\xc2\x85\xe2\x80\xa8|c`},
		{name: "second part missing", parts: `[{"const":"c"},{"header":"x-user"}]`, want: missing},
		{name: "else missing too", parts: `[{"header":"x-user","else":{"query":"u"}}]`, want: missing},
		{name: "path", parts: `["path"]`, request: rule.Request{Path: "/a/b?c=d"}, want: "/a/b"},
		{name: "path with fragment", parts: `["path"]`, request: rule.Request{Path: "/a#b"}, want: "/a"},
		{name: "path of CONNECT", parts: `["path"]`, want: missing},
		{name: "method", parts: `["method"]`, request: rule.Request{Method: "PUT"}, want: "PUT"},
		{name: "query", parts: `[{"query":"id"}]`, request: rule.Request{Path: "/a?x=1&id=7&y=2"}, want: "7"},
		{name: "query twice", parts: `[{"query":"id"}]`, request: rule.Request{Path: "/a?id=7&x=1&id=8"}, want: "7,8"},
		{name: "query hidden by an empty one", parts: `[{"query":"id"}]`, request: rule.Request{Path: "/a?id=&i%64=bob"}, want: ",bob"},
		{name: "query empty", parts: `[{"query":"id"}]`, request: rule.Request{Path: "/a?id=&x=1"}, want: missing},
		{name: "query decoded", parts: `[{"query":"id"}]`, request: rule.Request{Path: "/a?id=a%7cb+c%5C"}, want: `a\|b c\\`},
		{name: "query name decoded", parts: `[{"query":"x-id"}]`, request: rule.Request{Path: "/a?x%2Did=7"}, want: "7"},
		{name: "query escape cut short", parts: `[{"query":"id"}]`, request: rule.Request{Path: "/a?id=7%2"}, want: "7%2"},
		{name: "cookie", parts: `[{"cookie":"sid"}]`, headers: []string{"cookie", "a=1; sid=s-7; SID=x"}, want: "s-7"},
		{name: "cookie twice", parts: `[{"cookie":"sid"}]`, headers: []string{"cookie", "sid=1", "cookie", "sid=2"}, want: "1,2"},
		{name: "cookie missing", parts: `[{"cookie":"sid"}]`, headers: []string{"cookie", "a=1; sid="}, want: missing},
		{name: "cookie quoted", parts: `[{"cookie":"sid","else":"method"}]`, headers: []string{"cookie", `sid="a|b"`}, want: `"a\|b"`},
		{name: "host", parts: `["host"]`, request: rule.Request{Host: "API.example.com.:8443"}, want: "api.example.com"},
		{name: "IPv6 host", parts: `["host"]`, request: rule.Request{Host: "[FD00::1]:80"}, want: "[fd00::1]"},
		{name: "host missing", parts: `["host"]`, want: missing},
		{name: "claim", parts: `[{"claim":"sub"},{"claim":"realm.plan","else":{"const":"free"}}]`, request: rule.Request{Metadata: []rule.Value{{Text: "ann", Present: true}, {Text: "gold", Present: true}}}, want: "ann|gold"},
		{name: "claim missing", parts: `[{"claim":"sub","else":"route"}]`, request: rule.Request{Route: "r1"}, want: `route r1`},
		{name: "metadata", parts: `[{"metadata":{"namespace":"ai","key":"model"}}]`, request: rule.Request{Metadata: []rule.Value{{Text: "a|b", Present: true}}}, want: `a\|b`},
		{name: "metadata of an else", parts: `[{"header":"x","else":{"metadata":{"namespace":"ai","key":"model"}}}]`, request: rule.Request{Metadata: []rule.Value{{Text: "large", Present: true}}}, want: `metadata ai:model large`},
		{name: "metadata missing", parts: `[{"metadata":{"namespace":"ai","key":"model"},"else":{"const":"none"}}]`, request: rule.Request{Metadata: []rule.Value{{Unreadable: true}}}, want: `const none`},
		{name: "certificate", parts: `["san"]`, request: rule.Request{SAN: "spiffe://a/b|c"}, want: `spiffe://a/b\|c`},
		{name: "certificate missing", parts: `["san"]`, want: missing},
		{name: "route, region, label", parts: `["route","region",{"label":"tier"}]`, request: rule.Request{Route: "r1", PoP: &rule.PoP{Region: "eu", Labels: map[string]string{"tier": "edge"}}}, want: "r1|eu|edge"},
		{name: "no place", parts: `["region"]`, want: missing},
		{name: "label missing", parts: `[{"label":"tier"}]`, request: rule.Request{PoP: &rule.PoP{Region: "eu"}}, want: missing},
		{name: "query without value", parts: `[{"query":"id"}]`, request: rule.Request{Path: "/a?id"}, want: missing},
		{name: "query in the fragment", parts: `[{"query":"id"}]`, request: rule.Request{Path: "/a?x=1#&id=7"}, want: missing},
		{name: "no query", parts: `[{"query":"id"}]`, request: rule.Request{Path: "/id=7"}, want: missing},
	} {
		if got := key(t, test.parts, test.request, test.headers...); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

func TestClientIP(t *testing.T) {
	for _, test := range []struct {
		name   string
		hops   int
		prefix int
		peer   string
		xff    string
		want   string
	}{
		{name: "IPv4 with port", prefix: 64, peer: "203.0.113.7:50123", want: "203.0.113.7"},
		{name: "IPv6 with port", prefix: 64, peer: "[2001:db8:1:2:3:4:5:6]:50123", want: "2001:db8:1:2::/64"},
		{name: "prefix 1", prefix: 1, peer: "ffff::1", want: "8000::/1"},
		{name: "IPv4 in IPv6", prefix: 64, peer: "[::ffff:203.0.113.7]:80", want: "203.0.113.7"},
		{name: "zone", prefix: 64, peer: "[fe80::1%eth0]:80", want: "fe80::/64"},
		{name: "Unix socket", prefix: 64, peer: "@/tmp/envoy.sock", want: missing},
		{name: "none", prefix: 64, want: missing},

		{name: "forged without trusted hops", prefix: 64, peer: "203.0.113.7:1", xff: "198.51.100.1", want: "203.0.113.7"},
		{name: "one hop", hops: 1, prefix: 64, peer: "10.0.0.1:1", xff: "198.51.100.1", want: "198.51.100.1"},
		{name: "one hop, forged further left", hops: 1, prefix: 64, peer: "10.0.0.1:1", xff: "6.6.6.6, 198.51.100.1", want: "198.51.100.1"},
		{name: "two hops", hops: 2, prefix: 64, peer: "10.0.0.1:1", xff: "6.6.6.6,198.51.100.1 , 10.0.0.9", want: "198.51.100.1"},
		{name: "two hops, one address", hops: 2, prefix: 64, peer: "203.0.113.7:1", xff: "6.6.6.6", want: "203.0.113.7"},
		{name: "with port", hops: 1, prefix: 64, peer: "10.0.0.1:1", xff: "198.51.100.1:9999", want: "198.51.100.1"},
		{name: "IPv6 with port", hops: 1, prefix: 64, peer: "10.0.0.1:1", xff: "[2001:db8::1]:9999", want: "2001:db8::/64"},
		{name: "unknown", hops: 1, prefix: 64, peer: "203.0.113.7:1", xff: "unknown", want: "203.0.113.7"},
		{name: "no header", hops: 1, prefix: 64, peer: "203.0.113.7:1", want: "203.0.113.7"},
		{name: "empty last", hops: 1, prefix: 64, peer: "203.0.113.7:1", xff: "198.51.100.1,", want: "203.0.113.7"},
	} {
		parts := fmt.Sprintf(`[{"client_ip":{"trusted_hops":%d,"ipv6_prefix":%d}}]`, test.hops, test.prefix)
		if got := key(t, parts, rule.Request{Peer: test.peer}, "x-forwarded-for", test.xff); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
}

// blake128 is the key that stands for a long one.
func blake128(key string) string {
	sum := digest.Sum([]byte(key))
	return `\k` + hex.EncodeToString(sum[:])
}

// BLAKE2b-128 of the bytes 0, 1, 2 ... 250, 0, 1 ..., as Python's hashlib computes it.
func TestDigest(t *testing.T) {
	message := make([]byte, 4096)
	for i := range message {
		message[i] = byte(i % 251)
	}
	for n, want := range map[int]string{
		0: "cae66941d9efbd404e4d88758ea67670", 1: "7025e075d5e2f6cde3cc051a31f07660", 97: "971d58651c0225f503acbc0aa961b68f",
		128: "a74787004ef589e31149183900d0294a", 129: "aaf1b0371f6d4ee49ee4fb5ddd9c49ef", 256: "1142c504dcd26338b7cbcf41424540d0",
		257: "b77b55d3dddcc45c6a52774565cd0dd6", 4096: "61c1938ecece323c73f0efc3bf588f07",
	} {
		if sum := digest.Sum(message[:n]); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%d bytes: got %x, want %s", n, sum, want)
		}
	}
}

// TestKeysNeverCollide generates values, makes them a key and reads them back. The key is one line of UTF-8, and the key
// of what is read of it is itself.
func TestKeysNeverCollide(t *testing.T) {
	value := rapid.Custom(func(t *rapid.T) string {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{`\`, "|", "h", "x20", `\k`, "query", "query p0-1 ", " ", "a", "é", "\x00", "\n", "\x7f", "\u0085", "\u2028", "\u202e", "\xff", "\xe2\x80", strings.Repeat("x", 254)}), 0, 6).Draw(t, "pieces")
		return strings.Join(parts, "")
	})
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(t, "parts")
		made := rule.Rule{Name: "a", Limits: perMinute()}
		q := rule.Request{Path: "/?"}
		type part struct {
			source int
			value  string
		}
		var want []part
		for i := range n {
			sources := rapid.IntRange(1, rule.MaxSources).Draw(t, "sources")
			var p rule.Part
			first := part{source: -1}
			for j := range sources {
				name := "p" + strconv.Itoa(i) + "-" + strconv.Itoa(j)
				p = append(p, rule.Source{From: rule.FromQuery, Name: name})
				v := value.Draw(t, "value")
				q.Path += name + "=" + url.QueryEscape(v) + "&"
				if first.source < 0 && v != "" {
					first = part{source: j, value: v}
				}
			}
			made.Key = append(made.Key, p)
			want = append(want, first)
		}
		set := fatal.Get(checktest.New([]rule.Rule{made}))(t)
		var m rule.Matches
		set.Match(&q, &m)
		if slices.ContainsFunc(want, func(p part) bool { return p.source < 0 }) {
			if len(m.MissingKey) != 1 {
				t.Fatalf("a part is missing, but there are hits %v", m.Hits)
			}
			return
		}
		whole := set.WholeKey(0, &q)
		if short := rule.ShortKey(append([]byte(nil), whole...)); string(short) != string(m.Hits[0].Key) || len(short) > rule.MaxKey {
			t.Fatalf("%q stands for %q", m.Hits[0].Key, whole)
		}
		parts := rule.SplitKey(string(whole))
		if strings.ContainsFunc(string(whole), func(r rune) bool {
			return r == utf8.RuneError || unicode.IsControl(r) || r == '\u2028' || r == '\u202e'
		}) || len(parts) != n {
			t.Fatalf("%q has %d parts, want %d of text", whole, len(parts), n)
		}
		for i, text := range parts {
			if source, got := set.Rule(0).Key[i].Read(text); source != want[i].source || got != want[i].value {
				t.Errorf("part %d of %q is %q of source %d, want %+v", i, whole, got, source, want[i])
			}
		}
		for _, key := range [][]string{parts, {string(whole)}, {string(m.Hits[0].Key)}} {
			if again := set.Rule(0).KeyOf(key); string(again) != string(m.Hits[0].Key) {
				t.Errorf("the key of %q is %q, want %q", key, again, m.Hits[0].Key)
			}
		}
	})
}

// TestKeyLimitsAreApart: limits of single keys are no part of what edges get. They name the
// content, whatever their order and spelling.
func TestKeyLimitsAreApart(t *testing.T) {
	const rules = `{"rules":[{"name":"a","key":[{"header":"x-user"}],"limit":"5/1m","algorithm":"token_bucket","overrides":[{"when":{"header":{"x-tier":"gold"}},"limit":"50/1m"}%s]}]}`
	of := func(keys string) *rule.Set { return decode(t, fmt.Sprintf(rules, keys)) }
	const acme, globex = `,{"key":["acme"],"limit":"500/1m"}`, `,{"key":["globex"],"limit":{"count":7,"per":"1m","burst":9}}`
	without, with := of(""), of(acme+globex)
	if string(with.Encode()) != string(without.Encode()) || with.Version != without.Version || with.Rule(0).Limits[1].Limit.Count != 50 {
		t.Errorf("edges get %s\nwithout keys %s", with.Encode(), without.Encode())
	}
	if without.Content != without.Version || with.Content == with.Version || !strings.HasPrefix(with.Content, with.Version) {
		t.Errorf("content %q, without keys %q", with.Content, without.Content)
	}
	if again := of(globex + `,{"key":["acme"],"limit":{"count":500,"per":"60s","burst":500}}`); again.Content != with.Content {
		t.Errorf("the same limits have the content %q and %q", again.Content, with.Content)
	}
	seen := map[string]string{with.Content: acme + globex}
	for _, other := range []string{
		acme, acme + strings.Replace(globex, "9", "8", 1), acme + strings.Replace(globex, "globex", "other", 1), acme + `,{"key":["globex"],"limit":"unlimited"}`,
		acme + strings.Replace(globex, "}", `},"name":"x"`, 1), acme + strings.Replace(globex, "}", `},"until":"2026-12-01T00:00:00Z"`, 1),
		acme + strings.Replace(globex, "}", `},"until":"2026-12-01T00:00:01Z"`, 1),
	} {
		set := of(other)
		if seen[set.Content] != "" || set.Version != with.Version {
			t.Errorf("%s has the content of %q, or another version", other, seen[set.Content])
		}
		seen[set.Content] = other
	}
}

// TestKeyOfValues: the key of an override's values is that of the requests which have them.
func TestKeyOfValues(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, c := range []struct{ key, match, values, path, user, peer string }{
		{`{"header":"x-user"}`, ``, `"acme"`, "/", "acme", ""},
		{`{"header":"x-user"}`, ``, `"a|b\\c"`, "/", `a|b\c`, ""},
		{`{"header":"x-user"}`, ``, `"` + long + `"`, "/", long, ""},
		{`{"header":"x-user","else":"client_ip"},"method"`, ``, `"acme","GET"`, "/", "acme", "192.0.2.1:80"},
		{`"client_ip"`, ``, `"192.0.2.1"`, "/", "", "192.0.2.1:8080"},
		{`"client_ip"`, ``, `"2001:db8::1"`, "/", "", "[2001:db8::2]:80"},
		{`{"client_ip":{"ipv6_prefix":48}}`, ``, `"2001:db8:0:9::"`, "/", "", "[2001:db8:0:7::2]:80"},
		{`{"query":"account"}`, ``, `"4 2"`, "/a?account=4+2", "", ""},
		{`{"const":"all"},"path"`, ``, `"all","/v1"`, "/v1?x=1", "", ""},
		{`{"segment":"id"}`, `"match":{"path":{"template":"/u/{id}"},"ignore_case":true},`, `"ÉA"`, "/u/Éa", "", ""},
		{`"path"`, `"match":{"path":{"prefix":"/V1"},"ignore_case":true,"trailing_slash":"ignore","path_parameters":"ignore"},`, `"/v1/Pages/"`, "/V1;a=b/pages/;c?d", "", ""},
	} {
		set := decode(t, `{"rules":[{"name":"a",`+c.match+`"key":[`+c.key+`],"limit":"5/1m","overrides":[{"key":[`+c.values+`],"limit":"6/1m"}]}]}`)
		q := request(set, ":method", "GET", ":path", c.path, "x-user", c.user)
		q.Peer = c.peer
		var m rule.Matches
		set.Match(q, &m)
		if len(m.Hits) != 1 {
			t.Fatalf("%s: %d hits", c.key, len(m.Hits))
		}
		set.Rule(0).EachKey(nil, func(key []byte, own *rule.KeyLimit) {
			if string(key) != string(m.Hits[0].Key) || own.Limit.Count != 6 {
				t.Errorf("%s: %s has the key %q, a request %q", c.key, c.values, key, m.Hits[0].Key)
			}
		})
	}
}
