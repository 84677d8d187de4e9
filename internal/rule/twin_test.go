package rule_test

import (
	"encoding/binary"
	"hash/fnv"
	"math/big"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check"
	"github.com/weirlimit/weir/internal/rule/ip"
	"github.com/weirlimit/weir/internal/shed"
	"pgregory.net/rapid"
)

// twin evaluates conditions as their documentation reads, with the standard library's parsers, and
// without any thought of speed.
type twin struct {
	seed   uint64
	name   string
	method string
	host   string
	target string
	header map[string][]string
	peer   string
	region string
	labels map[string]string
	claims map[string]string // and metadata of the namespace n
	now    limit.Micros
}

func (q *twin) path() string { path, _, _ := strings.Cut(q.target, "?"); return path }

func (q *twin) holds(m *rule.Match, key string) bool {
	oneOf := func(n int, holds func(i int) bool) bool {
		return n == 0 || slices.ContainsFunc(make([]int, n), func(int) bool { n--; return holds(n) })
	}
	return oneOf(len(m.Methods), func(i int) bool { return m.Methods[i] == q.method }) &&
		oneOf(len(m.Hosts), func(i int) bool { return m.Hosts[i] == q.host }) &&
		oneOf(len(m.Paths), func(i int) bool { return textHolds(m.Paths[i], q.path(), true) }) &&
		oneOf(len(m.Regions), func(i int) bool { return m.Regions[i] == q.region }) &&
		oneOf(len(m.Clients), func(i int) bool { return q.isIn(m.Clients[i]) }) &&
		q.all(m.Headers, func(name string) []string { return q.header[name] }) &&
		q.all(m.Queries, q.query) && q.all(m.Cookies, q.cookie) &&
		q.all(m.Claims, func(name string) []string { return in(q.claims, name) }) &&
		q.all(m.Metadata, func(name string) []string { return in(q.claims, name[len("n:"):]) }) &&
		q.all(m.Labels, func(name string) []string { return in(q.labels, name) }) &&
		(m.Until == 0 || q.now < m.Until) && q.percent(m.Percent, key) &&
		!slices.ContainsFunc(m.Not, func(not rule.Match) bool { return q.holds(&not, key) })
}

func in(m map[string]string, name string) []string {
	if text, ok := m[name]; ok {
		return []string{text}
	}
	return nil
}

func (q *twin) all(list []rule.Named, values func(name string) []string) bool {
	return !slices.ContainsFunc(list, func(n rule.Named) bool {
		v := values(n.Name)
		return !textHolds(n.Text, strings.Join(v, ","), v != nil)
	})
}

func textHolds(t rule.Text, got string, present bool) bool {
	switch t.Op {
	case rule.OpPresent:
		return present
	case rule.OpAbsent:
		return !present
	case rule.OpPrefix:
		return present && strings.HasPrefix(got, t.Arg)
	case rule.OpRegex:
		return present && regexp.MustCompile("^(?:"+t.Arg+")$").MatchString(got)
	}
	return present && got == t.Arg
}

func (q *twin) query(name string) []string {
	_, query, _ := strings.Cut(q.target, "?")
	values, _ := url.ParseQuery(query)
	return values[name]
}

func (q *twin) cookie(name string) (values []string) {
	for _, pair := range strings.Split(strings.Join(q.header["cookie"], "; "), ";") {
		if n, value, _ := strings.Cut(pair, "="); strings.TrimSpace(n) == name {
			values = append(values, strings.TrimSpace(value))
		}
	}
	return values
}

func (q *twin) isIn(p ip.Prefix) bool {
	a, err := netip.ParseAddr(q.peer)
	return err == nil && netip.MustParsePrefix(p.String()).Contains(a.Unmap())
}

// percent hashes with the standard library what is documented to be hashed.
func (q *twin) percent(p rule.Percent, key string) bool {
	if p == (rule.Percent{}) {
		return true
	}
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint64(nil, q.seed))
	h.Write([]byte(q.name + "\x00" + key))
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	x ^= x >> 33
	at := new(big.Int).Mul(new(big.Int).SetUint64(x), big.NewInt(100))
	place := int(at.Rsh(at, 64).Int64())
	return p.From <= place && place < p.To
}

var (
	words      = rapid.SampledFrom([]string{"a", "b", "ab", "A", ""})
	twinNames  = rapid.SampledFrom([]string{"x", "y", "X"})
	someTexts  = rapid.Custom(func(t *rapid.T) rule.Text { return anyText(t, "") })
	somePaths  = rapid.Custom(func(t *rapid.T) rule.Text { return anyText(t, "/") })
	addresses  = rapid.SampledFrom([]string{"10.1.2.3", "10.1.2.200", "192.0.2.1", "::ffff:10.1.2.3", "fd00::1", "fd00:1::1", "none", ""})
	networks   = rapid.SampledFrom([]string{"10.0.0.0/8", "10.1.2.128/25", "192.0.2.1", "0.0.0.0/0", "::/0", "fd00::/32", "::ffff:10.0.0.0/104"})
	conditions = rapid.Custom(func(t *rapid.T) rule.Match {
		m := condition(t)
		for range rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(t, "not") {
			if not := condition(t); !not.Empty() {
				m.Not = append(m.Not, not)
			}
		}
		return m
	})
)

func anyText(t *rapid.T, begin string) rule.Text {
	arg := begin + words.Draw(t, "arg")
	ops := []rule.Op{rule.OpExact, rule.OpRegex}
	if arg != "" {
		ops = append(ops, rule.OpPrefix)
	}
	if begin == "" && rapid.Bool().Draw(t, "presence") {
		return rule.Text{Op: rapid.SampledFrom([]rule.Op{rule.OpPresent, rule.OpAbsent}).Draw(t, "op")}
	}
	return rule.Text{Op: rapid.SampledFrom(ops).Draw(t, "op"), Arg: arg}
}

// condition draws few of the clauses: all of them together never hold.
func condition(t *rapid.T) (m rule.Match) {
	for range rapid.IntRange(0, 3).Draw(t, "clauses") {
		switch rapid.IntRange(0, 7).Draw(t, "clause") {
		case 0:
			m.Methods = rapid.SliceOfN(rapid.SampledFrom([]string{"GET", "PUT"}), 1, 2).Draw(t, "methods")
		case 1:
			m.Hosts = []string{rapid.SampledFrom([]string{"a", "b"}).Draw(t, "host")}
		case 2:
			m.Paths = rapid.SliceOfN(somePaths, 1, 2).Draw(t, "paths")
		case 3:
			f := m.Fields()[rapid.IntRange(0, 5).Draw(t, "kind")]
			name := twinNames.Draw(t, "name")
			switch f.From {
			case rule.FromHeader:
				name = strings.ToLower(name)
			case rule.FromMetadata:
				name = "n:" + name
			}
			*f.List = []rule.Named{{Name: name, Text: someTexts.Draw(t, "text")}}
		case 4:
			m.Clients = nil
			for _, text := range rapid.SliceOfN(networks, 1, 2).Draw(t, "networks") {
				p, _ := ip.ParsePrefix(text)
				m.Clients = append(m.Clients, p)
			}
		case 5:
			m.Regions = []string{rapid.SampledFrom([]string{"eu", "us"}).Draw(t, "region")}
		case 6:
			from := rapid.IntRange(0, 98).Draw(t, "from")
			m.Percent = rule.Percent{From: from, To: rapid.IntRange(from+1, 99).Draw(t, "to")}
		case 7:
			m.Until = limit.Second * limit.Micros(rapid.IntRange(1, 3).Draw(t, "until"))
		}
	}
	return m
}

// TestMatchAgainstTwin: whatever conditions and requests there are, the same rules apply, with the
// same overrides, as by an evaluation that is written down as the documentation reads.
func TestMatchAgainstTwin(t *testing.T) {
	hits, variants, shedding := 0, 0, 0 // of the last those of a class twice
	compare := func(t *rapid.T) {
		var rules []rule.Rule
		for _, m := range rapid.SliceOfN(conditions, 1, 5).Draw(t, "rules") {
			r := rule.Rule{Name: "r" + string(rune('a'+len(rules))), Match: m, Key: []rule.Part{{{From: rule.FromHeader, Name: "key"}}}, Limits: perMinute(50)}
			for _, when := range rapid.SliceOfN(conditions.Filter(func(m rule.Match) bool { return !m.Empty() }), 0, 2).Draw(t, "overrides") {
				v := perMinute(50)[0]
				v.When, v.Name, v.Unlimited = when, "o"+string(rune('a'+len(r.Limits))), rapid.IntRange(0, 3).Draw(t, "unlimited") == 0
				r.Limits = append(r.Limits, v)
			}
			if rapid.IntRange(0, 3).Draw(t, "shed") == 0 {
				r = rule.Rule{Name: r.Name, Match: noPercent(r.Match), Key: r.Key, Shed: &rule.Shed{Capacity: 1}}
				for _, when := range rapid.SliceOfN(conditions, 0, 3).Draw(t, "classes") {
					if when = noPercent(when); !when.Empty() {
						r.Shed.Classes = append(r.Shed.Classes, rule.ShedClass{Class: shed.Class(rapid.IntRange(0, 3).Draw(t, "class")), When: when})
					}
				}
			}
			rules = append(rules, r)
		}
		seed := rapid.Uint64Range(0, 3).Draw(t, "seed")
		set, problems := check.Rules(rules, nil, seed)
		if set == nil {
			t.Fatal(problems)
		}
		for range 5 {
			q := twin{
				seed: seed, method: rapid.SampledFrom([]string{"GET", "PUT"}).Draw(t, "method"), host: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "host"),
				target: "/" + words.Draw(t, "path") + rapid.SampledFrom([]string{"", "?x=a", "?y=b&x=", "?x=a&%78=b", "?X", "?x=+a"}).Draw(t, "query"),
				peer:   addresses.Draw(t, "peer"), region: rapid.SampledFrom([]string{"", "eu", "us"}).Draw(t, "region"),
				labels: rapid.MapOfN(twinNames, words, 0, 2).Draw(t, "labels"), claims: rapid.MapOfN(twinNames, words, 0, 2).Draw(t, "claims"),
				now: limit.Second * limit.Micros(rapid.IntRange(0, 3).Draw(t, "now")),
			}
			key := rapid.StringMatching(`[a-z0-9]{1,8}`).Draw(t, "key")
			q.header = map[string][]string{"key": {key}}
			for range rapid.IntRange(0, 3).Draw(t, "headers") {
				name := rapid.SampledFrom([]string{"x", "y", "cookie"}).Draw(t, "name")
				value := words.Draw(t, "value")
				if name == "cookie" {
					value = rapid.SampledFrom([]string{"x=a", "y=b; x=a", "X=; x = b", "x", "z=x=a", " x=ab ;;"}).Draw(t, "cookie")
				}
				q.header[name] = append(q.header[name], value)
			}
			var m rule.Matches
			set.Match(q.request(set), &m)
			got := map[int]int{}
			for _, h := range m.Hits {
				got[h.Rule] = h.Variant
			}
			classes := map[int]shed.Class{}
			for _, h := range m.Sheds {
				if classes[h.Rule] = h.Class; string(h.Key) != key {
					t.Fatalf("%+v has the key %q, want %q", q, h.Key, key)
				}
			}
			for i := range rules {
				if s := rules[i].Shed; s != nil {
					class, at := shed.Normal, slices.IndexFunc(s.Classes, func(c rule.ShedClass) bool { return q.holds(&c.When, key) })
					if at >= 0 {
						class = s.Classes[at].Class
					}
					if found, ok := classes[i]; ok != q.holds(&rules[i].Match, key) || ok && found != class {
						t.Fatalf("%+v\nof %+v: sheds %v as %v, want %v", rules[i].Match, q, ok, found, class)
					} else if ok {
						shedding += 1 + min(at+1, 1)
					}
					continue
				}
				q.name = rules[i].Name
				want, variant := q.holds(&rules[i].Match, key), 0
				for v := len(rules[i].Limits) - 1; v > 0; v-- {
					if q.holds(&rules[i].Limits[v].When, key) {
						variant = v
					}
				}
				want = want && !rules[i].Limits[variant].Unlimited
				if found, ok := got[i]; ok != want || ok && found != variant {
					t.Fatalf("%+v\nof %+v: applies %v with override %d, want %v with %d", rules[i].Match, q, ok, found, want, variant)
				} else if ok {
					hits++
					variants += min(variant, 1)
				}
			}
		}
	}
	for range 5 { // rapid draws a fifth with -short
		rapid.Check(t, compare)
	}
	if hits < 100 || variants < 20 || shedding < 20 {
		t.Errorf("%d hits, %d of them of overrides, %d of shed: it compares nothing", hits, variants, shedding)
	}
}

// noPercent is a condition without what is of keys.
func noPercent(m rule.Match) rule.Match {
	m.Percent, m.Not = rule.Percent{}, slices.Clone(m.Not)
	for i := range m.Not {
		m.Not[i].Percent = rule.Percent{}
	}
	m.Not = slices.DeleteFunc(m.Not, func(not rule.Match) bool { return not.Empty() })
	return m
}

// request is what the filter makes of q.
func (q *twin) request(set *rule.Set) *rule.Request {
	out := request(set, ":method", q.method, ":authority", q.host, ":path", q.target)
	for name, values := range q.header {
		for _, v := range values {
			out.Add(set.Inputs(), name, v)
		}
	}
	out.Now, out.PoP = q.now, &rule.PoP{Region: q.region, Labels: q.labels}
	out.Fetch = fetcher{
		peer: func() string { return q.peer },
		metadata: func(i int) rule.Value {
			text, ok := q.claims[strings.TrimPrefix(set.Inputs().Metadata[i].Name, "n:")]
			return rule.Value{Text: text, Present: ok}
		},
	}
	return out
}
