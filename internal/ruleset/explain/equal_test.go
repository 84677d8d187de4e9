package explain

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/rule/check"
	"github.com/weirlimit/weir/internal/rule/ip"
	"github.com/weirlimit/weir/internal/ruleset/request"
	"github.com/weirlimit/weir/wasmfilter/edge"
	"github.com/weirlimit/weir/wasmfilter/edge/rulebook"
	"github.com/weirlimit/weir/wasmfilter/edge/table"
)

// dice draws rules and requests.
type dice struct{ *rand.Rand }

func pick[T any](d dice, of ...T) T { return of[d.IntN(len(of))] }

// names are those of headers, claims, cookies, query parameters and labels.
var names = []string{"x", "y"}

func (d dice) text() rule.Text {
	return pick(d, rule.Text{Arg: "a"}, rule.Text{Arg: "b"}, rule.Text{Op: rule.OpPrefix, Arg: "a"}, rule.Text{Op: rule.OpPresent}, rule.Text{Op: rule.OpAbsent}, rule.Text{Op: rule.OpRegex, Arg: "a|b"})
}

// condition draws clauses of each kind.
func (d dice) condition(most int, percent, more bool) (m rule.Match) {
	for range d.IntN(most + 1) {
		switch d.IntN(9) {
		case 0:
			m.Methods = pick(d, []string{"GET"}, []string{"PUT", "GET"})
		case 1:
			m.Hosts = []string{pick(d, "a", "b")}
		case 2, 3:
			m.Paths = []rule.Text{pick(d, rule.Text{Arg: "/a"}, rule.Text{Op: rule.OpPrefix, Arg: "/a/"}, rule.Text{Op: rule.OpRegex, Arg: "/[ab]"})}
			m.Ignore = rule.Spelling(pick(d, 0, 0, 1)) * rule.IgnoreCase
		case 4, 5:
			f := m.Fields()[d.IntN(5)]
			*f.List = []rule.Named{{Name: pick(d, names...), Text: d.text()}}
		case 6:
			p, _ := ip.ParsePrefix(pick(d, "10.0.0.0/8", "192.0.2.1"))
			m.Clients, m.TrustedHops = []ip.Prefix{p}, d.IntN(2)
		case 7:
			m.Regions = []string{pick(d, "eu", "us")}
		case 8:
			if m.Until = limit.Second * limit.Micros(1+d.IntN(3)); percent && d.IntN(2) == 0 {
				m.Percent, m.Until = rule.Percent{To: 20 + d.IntN(60)}, 0
			}
		}
	}
	for n := d.IntN(3); more && n > 0; n-- {
		if not := d.condition(2, percent, false); !not.Empty() {
			m.Not = append(m.Not, not)
		}
	}
	return m
}

func (d dice) source() rule.Source {
	from := pick(d, rule.FromClientIP, rule.FromHeader, rule.FromHeader, rule.FromPath, rule.FromMethod, rule.FromQuery, rule.FromConst, rule.FromCookie,
		rule.FromHost, rule.FromClaim, rule.FromSAN, rule.FromRoute, rule.FromRegion, rule.FromLabel)
	s := rule.Source{From: from}
	if from.Named() {
		s.Name = pick(d, names...)
	}
	if from == rule.FromClientIP {
		s.TrustedHops = d.IntN(2)
	}
	return s
}

// rules draws rules that a PoP decides by itself: some exempt, off, shadows, and with overrides.
func (d dice) rules() (all []rule.Rule) {
	for i := range 1 + d.IntN(4) {
		r := rule.Rule{Name: "r" + string(rune('a'+i)), Mode: pick(d, 0, 0, 0, 0, rule.Shadow, rule.Off, rule.Exempt), Scope: rule.ScopePoP}
		if r.Mode == rule.Exempt {
			if r.Scope, r.Match = 0, d.condition(2, false, true); r.Match.Empty() {
				r.Match.Methods = []string{"GET"}
			}
			r.From = pick(d, nil, nil, []string{"ra"}, []string{"rb"})
			all = append(all, r)
			continue
		}
		for range d.IntN(3) {
			p := rule.Part{d.source()}
			if !slices.Contains([]rule.From{rule.FromConst, rule.FromPath, rule.FromMethod}, p[0].From) && d.IntN(2) == 0 {
				p = append(p, d.source()) // those have no else
			}
			r.Key = append(r.Key, p)
		}
		r.Match = d.condition(2, len(r.Key) > 0, true)
		if d.IntN(4) == 0 { // a segment of the path
			r.Match.Paths = []rule.Text{{Op: rule.OpTemplate, Arg: "/{id}"}}
			r.Key = append(r.Key, rule.Part{{From: rule.FromSegment, Name: "id"}})
		}
		if d.IntN(3) == 0 {
			r.Cost = rule.Cost{Header: pick(d, names...), Max: 2}
		}
		spec := limit.Spec{Algorithm: pick(d, limit.FixedWindow, limit.SlidingWindow, limit.TokenBucket), Count: pick[int64](d, 2, 2, 3, 3, 0), Period: limit.Minute}
		if spec.Algorithm == limit.TokenBucket {
			spec.Count = max(spec.Count, 2)
			spec.Burst = spec.Count
		}
		r.Limits = []rule.Variant{{Limit: spec}}
		for j := range d.IntN(3) {
			if when := d.condition(2, len(r.Key) > 0, true); !when.Empty() {
				v := rule.Variant{Name: pick(d, "", "o"+string(rune('a'+j))), When: when, Limit: spec, Unlimited: d.IntN(3) == 0}
				if !v.Unlimited && spec.Burst == 0 {
					v.Limit.Count += 1 + int64(j)
				}
				r.Limits = append(r.Limits, v)
			}
		}
		all = append(all, r)
	}
	return all
}

// inputs are the words of all inputs that rules may have.
var inputs = append([]string{"method", "host", "path", "client_ip", "san", "route", "region", "header x-forwarded-for", "header cookie"},
	"header x", "header y", "claim x", "claim y", "label x", "label y")

// stated is a request, with its PoP.
type stated struct {
	request.Request
	pop rule.PoP
	now limit.Micros
}

func (s *stated) fill(in *rule.Inputs) *rule.Request {
	q := new(rule.Request)
	s.Fill(in, q)
	q.PoP, q.Now = &s.pop, s.now
	if s.Method == "" {
		q.Method = ""
	}
	return q
}

// request draws what a request has of these inputs, over what it has.
func (d dice) request(s *stated, of []string) {
	value := func() string { return pick(d, "", "a", "b", "ab", "1", "2") }
	for _, word := range of {
		kind, name, _ := strings.Cut(word, " ")
		set := func(m map[string]string, value string) {
			if delete(m, name); d.IntN(3) > 0 {
				m[name] = value
			}
		}
		switch {
		case name == "x-forwarded-for":
			set(s.Headers, pick(d, "10.7.7.7", "198.51.100.1", "none"))
		case name == "cookie":
			set(s.Headers, pick(d, "x=a", "y=b; x=ab", "x"))
		case kind == "header":
			set(s.Headers, value())
		case kind == "claim":
			set(s.Claims, value())
		case kind == "label":
			set(s.pop.Labels, value())
		case kind == "method":
			s.Method = pick(d, "GET", "PUT", "put")
		case kind == "host":
			s.Host = pick(d, "a", "b:80", "")
		case kind == "path":
			s.Path = pick(d, "/a", "/A", "/a/b", "/b?x=a", "/a?y=b&x=ab", "")
		case kind == "client_ip":
			s.Client = pick(d, "10.1.2.3", "192.0.2.1:99", "")
		case kind == "san":
			s.SAN = value()
		case kind == "route":
			s.Route = value()
		case kind == "region":
			s.pop.Region = pick(d, "eu", "us", "")
		}
	}
}

func nobody() *stated {
	return &stated{Request: request.Request{Headers: map[string]string{}, Claims: map[string]string{}}, pop: rule.PoP{Labels: map[string]string{}}}
}

// memory is the shared data of an Envoy.
type memory map[string]struct {
	data    []byte
	version uint32
}

func (m memory) Get(key []byte) ([]byte, uint32, bool) {
	v, ok := m[string(key)]
	return slices.Clone(v.data), v.version, ok
}

func (m memory) Set(key, data []byte, version uint32) table.Outcome {
	v := m[string(key)]
	if version != 0 && version != v.version && v.version != 0 {
		return table.Raced
	}
	v.data, v.version = slices.Clone(data), v.version+1
	m[string(key)] = v
	return table.Stored
}

// edgeOf is a worker of a PoP that has a set of rules and no region.
type edgeOf struct {
	*edge.Worker
	now lease.Millis
}

func newEdge(set *rule.Set) *edgeOf {
	return &edgeOf{edge.New(rulebook.Config{Rules: set, PagesLog2: 4, RegionCluster: "none", Hash: 1}, memory{}, [6]uint64{1, 2, 3, 4, 5, 6}, 1000, limit.Second), 1000}
}

// decided is what an edge says of a request.
type decided struct {
	outcome edge.Outcome
	hits    []string         // RULE/OVERRIDE of the enforced rules that apply
	left    map[string]int64 // by RULE
	denied  string           // RULE KEY of the refusal
}

func (e *edgeOf) decide(s *stated) (d decided) {
	var r edge.Request
	d.left = map[string]int64{}
	if !e.Match(s.fill(e.Inputs())) {
		return d
	}
	d.outcome = e.Decide(e.now, &r)
	r.Quotas(func(q *edge.Quota) {
		d.hits, d.left[q.Rule.Name] = append(d.hits, q.Name), q.Remaining
	})
	if d.outcome == edge.Deny {
		d.denied = r.Governing(rule.AnyHeaders).Rule.Name + " " + string(r.DeniedKey())
	}
	e.End(e.now, &r)
	return d
}

// later is a time at which all counters are new.
func (e *edgeOf) later() {
	e.now += 3_600_000
	e.SetClock(e.now, limit.Micros(e.now)*limit.Millisecond)
}

// tally counts what the comparisons met.
type tally struct {
	sync.Mutex
	seen map[string]int
}

func (t *tally) add(what string) {
	t.Lock()
	t.seen[what]++
	t.Unlock()
}

// perSet is how many requests are compared with the same rules.
const perSet = 20

// What explain says of a request is what a PoP decides on: which rules apply, with which override and key, and which one
// refuses it, with new counters and with spent ones. Where not all of the request is known, what it says is so whatever the
// rest is.
func TestEdge(t *testing.T) {
	pairs := 100_000
	if testing.Short() {
		pairs = 8000
	}
	count := &tally{seen: map[string]int{}}
	const parts = 4
	t.Run("pairs", func(t *testing.T) {
		for part := range parts {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				for i := range pairs / perSet / parts {
					seed := uint64(part)<<32 + uint64(i)
					if compare(t, dice{rand.New(rand.NewPCG(1, seed))}, count); t.Failed() {
						t.Fatalf("of seed %d", seed)
					}
				}
			})
		}
	})
	t.Logf("%v", count.seen)
	for _, what := range []string{"applies", "failed", "exempt", "unlimited", "override", "costly", "new", "spent", "unknown", "known applies", "known failed", "known exempt", "known unlimited"} {
		if count.seen[what] < pairs/1000 {
			t.Errorf("%s: %d of %d pairs", what, count.seen[what], pairs)
		}
	}
}

func compare(t *testing.T, d dice, count *tally) {
	var set *rule.Set
	for set == nil {
		set, _ = check.Rules(d.rules(), nil, d.Uint64N(4))
	}
	e := newEdge(set)
	for range perSet {
		known := request.Known{}
		var first, rest []string
		for _, word := range inputs {
			if known[word] = d.IntN(5) > 0; known[word] {
				first = append(first, word)
			} else {
				rest = append(rest, word)
			}
		}
		s := nobody()
		s.now = limit.Second * limit.Micros(d.IntN(4))
		d.request(s, first)
		partly := Rules(set, known, s.fill)
		d.request(s, rest)
		whole := Rules(set, nil, s.fill)
		for i := range partly {
			holds(t, &partly[i], whole, s, set.Seed(), count)
		}
		e.agrees(t, s, whole, count)
		if t.Failed() {
			t.Fatalf("rules %s\nrequest %+v, of which %s are not known", set.Encode(), s, rest)
		}
	}
}

// holds checks what is said of a rule by a part of a request against what is so of the whole.
func holds(t *testing.T, p *Verdict, whole []Verdict, s *stated, seed uint64, count *tally) {
	i := slices.IndexFunc(whole, func(v Verdict) bool { return v.Rule.Name == p.Rule.Name })
	w, right, what := &whole[i], true, ""
	switch {
	case p.Unknown():
		what = "unknown"
	case p.Failed != "":
		what = "known failed"
		if right = w.Failed == p.Failed; !right {
			for _, c := range clauses(p.Rule) {
				e := explainer{seed: seed, request: s.fill}
				right = right || c.name == p.Failed && len(e.match([]rule.Rule{c.alone})) == 0
			}
		}
	case p.ExemptBy != "":
		what = "known exempt"
		by := slices.IndexFunc(whole, func(v Verdict) bool { return v.Rule.Name == p.ExemptBy })
		right = whole[by].Applies() && (w.ExemptBy != "" || w.Failed != "")
	case p.Unlimited:
		what = "known unlimited"
		right = w.Unlimited && w.Override == p.Override
	case p.Hit == nil:
		what = "known applies"
		right = w.Applies()
	default:
		what = "known applies"
		right = w.Hit != nil && slices.Equal(w.Hit.Key, p.Hit.Key) && p.Hit.Variant == w.Hit.Variant && p.Override == w.Override && p.Hit.Cost == w.Hit.Cost
	}
	if count.add(what); !right {
		t.Errorf("%s: %+v, and of the whole request %+v", what, p, w)
	}
}

// agrees checks what is said of a request against what the edge decides.
func (e *edgeOf) agrees(t *testing.T, s *stated, whole []Verdict, count *tally) {
	e.later()
	var hits []string
	exempt := false
	for i := range whole {
		v := &whole[i]
		switch {
		case v.Hit != nil && v.Rule.Mode != rule.Shadow:
			name := v.Rule.Name
			if n := v.Hit.Variant; n > 0 {
				name += "/" + cmp.Or(v.Rule.Limits[n].Name, fmt.Sprint("override-", n))
				count.add("override")
			}
			if hits = append(hits, name); v.Hit.Cost > 1 {
				count.add("costly")
			}
			count.add("applies")
		case v.ExemptBy != "":
			exempt = true
			count.add("exempt")
		case v.Unlimited:
			count.add("unlimited")
		case v.Failed != "":
			count.add("failed")
		}
	}
	left := map[string]int64{}
	for turn := range 9 {
		refuser := Refuser(whole, func(i int) int64 {
			if n, found := left[whole[i].Rule.Name]; found {
				return n
			}
			return -1
		})
		denied := ""
		if refuser >= 0 {
			denied = whole[refuser].Rule.Name + " " + string(whole[refuser].Hit.Key)
		}
		got := e.decide(s)
		if by := e.Exempt(); exempt && !slices.ContainsFunc(whole, func(v Verdict) bool { return v.Rule.Name == by && v.Applies() }) {
			t.Errorf("the edge exempts by %q: %+v", by, whole)
		}
		if got.denied != denied || !slices.Equal(got.hits, hits) || (got.outcome == edge.Deny) != (refuser >= 0) {
			t.Errorf("in turn %d the edge says %+v, want %q by %q, with %v left", turn, got, hits, denied, left)
		}
		switch {
		case denied != "" && turn == 0:
			count.add("new")
			return
		case denied != "":
			count.add("spent")
			return
		case len(hits) == 0:
			return
		}
		left = got.left
	}
	t.Errorf("nothing refuses it: %+v", whole)
}
