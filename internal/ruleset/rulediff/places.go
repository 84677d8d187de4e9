package rulediff

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"

	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/request"
)

// others is the side of what is not of the match of one of the two.
const others = 2

const (
	mostValues = 500 // of a place, beside those of the matches
	mostKeys   = 100 // values of a place that are there for a rule that is for a percentage of keys
)

const (
	none  = "\x00" // the value of a place that a request does not have
	plain = "z"    // a value that probably no condition asks for
)

// usual are values that probably no condition asks for; of other places plain and none.
var usual = map[rule.From][]string{
	rule.FromMethod:   {"GET", "POST"},
	rule.FromPath:     {"/" + plain, "/"},
	rule.FromHost:     {plain + "." + plain, none},
	rule.FromClientIP: {"192.0.2.1", "2001:db8::1", none},
}

// manyKeys are the patterns of as many values as it takes.
var manyKeys = map[rule.From]string{rule.FromClientIP: "198.18.0.%d", rule.FromHeader: plain + "%d", rule.FromClaim: plain + "%d", rule.FromMetadata: plain + "%d"}

// place is what conditions or keys look at.
type place struct {
	rule.Source
	values []string
	base   [2]int // the value that fulfils the match of a side, else a usual one; -1: none yet
	inKey  bool
}

// places are all that two versions of a rule look at.
type places struct {
	list    []*place
	known   map[rule.Source]*place
	spelled bool // some conditions ignore differences between paths and methods
	percent bool // some hold for a part of the keys
}

func (s *places) at(of rule.Source) *place {
	of = whole(of)
	p := s.known[of]
	if p == nil {
		p = &place{Source: of, base: [2]int{-1, -1}}
		s.list, s.known[of] = append(s.list, p), p
	}
	return p
}

// whole is a source of which all counts.
func whole(s rule.Source) rule.Source {
	s.IPv6Prefix = 0
	return s
}

// add adds values, which fulfil the match of a side, if people can read them. What is no path is of a regular expression.
func (p *place) add(side int, values ...string) {
	for _, v := range values {
		hidden := strings.ContainsFunc(v, func(r rune) bool { return !unicode.IsPrint(r) })
		if side == others && len(p.values) >= mostValues || hidden && v != none || p.From == rule.FromPath && !strings.HasPrefix(v, "/") {
			continue
		}
		i := slices.Index(p.values, v)
		if i < 0 {
			i, p.values = len(p.values), append(p.values, v)
		}
		if side < others && p.base[side] < 0 {
			p.base[side] = i
		}
	}
}

// match adds values for the conditions of a match.
func (s *places) match(m *rule.Match, side int) {
	add := func(of rule.Source, values ...string) {
		if len(values) > 0 {
			s.at(of).add(side, values...)
		}
	}
	s.spelled, s.percent = s.spelled || m.Ignore != 0, s.percent || m.Percent.To > 0
	add(rule.Source{From: rule.FromMethod}, m.Methods...)
	add(rule.Source{From: rule.FromRegion}, m.Regions...)
	for _, host := range m.Hosts {
		add(rule.Source{From: rule.FromHost}, strings.Replace(host, "*", plain, 1))
	}
	for _, t := range m.Paths {
		add(rule.Source{From: rule.FromPath}, fulfilling(t)...)
	}
	for _, network := range m.Clients {
		add(rule.Source{From: rule.FromClientIP, TrustedHops: m.TrustedHops}, inAndBeside(network.String())...)
	}
	for _, f := range m.Fields() {
		for _, n := range *f.List {
			add(rule.Source{From: f.From, Name: n.Name}, fulfilling(n.Text)...)
		}
	}
	for i := range m.Not {
		s.match(&m.Not[i], others)
	}
}

// inAndBeside are the first address of a network, and that of the network beside it.
func inAndBeside(network string) []string {
	in := netip.MustParsePrefix(network) // was a network before
	beside := in.Addr().AsSlice()
	if i := in.Bits() - 1; i >= 0 {
		beside[i/8] ^= 0x80 >> (i % 8)
	}
	other, _ := netip.AddrFromSlice(beside)
	return []string{in.Addr().String(), other.String()}
}

var placeholder = regexp.MustCompile(`{[^/]*}`)

// fulfilling are values that fulfil a condition, the plainest first.
func fulfilling(t rule.Text) []string {
	switch t.Op {
	case rule.OpPresent:
		return []string{plain}
	case rule.OpAbsent:
		return []string{none}
	case rule.OpPrefix:
		return []string{t.Arg + plain, t.Arg}
	case rule.OpTemplate:
		return []string{placeholder.ReplaceAllString(t.Arg, plain)}
	case rule.OpRegex:
		return []string{likely(t.Arg)}
	}
	return []string{t.Arg}
}

// likely is a text that a regular expression probably matches: with the last of all alternatives, and each loop once at most.
func likely(expression string) (out string) {
	re, _ := syntax.Parse(expression, syntax.Perl)
	program, _ := syntax.Compile(re.Simplify()) // checked
	at := program.Start
	for range program.Inst {
		in := &program.Inst[at]
		switch at = int(in.Out); in.Op {
		case syntax.InstAlt:
			at = int(in.Arg)
		case syntax.InstRune, syntax.InstRune1:
			if len(in.Rune) > 0 { // none is in an empty class
				out += string(max(in.Rune[0], '!'))
			}
		case syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			out += plain
		case syntax.InstMatch:
			return out
		}
	}
	return out
}

// key adds the places that a key looks at.
func (s *places) key(parts []rule.Part) {
	for _, p := range parts {
		for _, of := range p {
			if of.From != rule.FromConst && of.From != rule.FromSegment {
				s.at(of).inKey = true
			}
		}
	}
}

// finish adds usual values, and other spellings and other keys if they matter.
func (s *places) finish() {
	slices.SortFunc(s.list, func(a, b *place) int {
		return cmp.Or(cmp.Compare(a.From, b.From), cmp.Compare(a.Name, b.Name), cmp.Compare(a.TrustedHops, b.TrustedHops))
	})
	for _, p := range s.list {
		if s.spelled && (p.From == rule.FromPath || p.From == rule.FromMethod) {
			for _, v := range slices.Clone(p.values) {
				p.add(others, strings.ToUpper(v), strings.ToLower(v), v+"/", v+";v=1")
			}
		}
		values := usual[p.From]
		if values == nil && p.inKey {
			values = []string{plain, none}
		} else if values == nil {
			values = []string{none, plain}
		}
		for side := range p.base {
			p.add(side, values...)
		}
		for i := 0; s.percent && p.inKey && manyKeys[p.From] != "" && i < mostKeys; i++ {
			p.add(others, fmt.Sprintf(manyKeys[p.From], i))
		}
	}
}

// request makes the request with these values.
func (s *places) request(at []int) *request.Request {
	r := &request.Request{Path: "/", Headers: map[string]string{}, Claims: map[string]string{}, Metadata: map[string]string{}, Labels: map[string]string{}}
	for i, p := range s.list {
		if v := p.values[at[i]]; v != none {
			p.set(r, v)
		}
	}
	return r
}

// set gives a request a value at the place.
func (p *place) set(r *request.Request, v string) {
	switch p.From {
	case rule.FromMethod:
		r.Method = v
	case rule.FromHost:
		r.Host = v
	case rule.FromPath: // comes before query
		r.Path = v
	case rule.FromQuery:
		r.Path += map[bool]string{true: "&", false: "?"}[strings.Contains(r.Path, "?")] + url.QueryEscape(p.Name) + "=" + url.QueryEscape(v)
	case rule.FromHeader:
		r.Headers[p.Name] = v
	case rule.FromCookie:
		r.Headers["cookie"] = strings.TrimPrefix(r.Headers["cookie"]+"; "+p.Name+"="+v, "; ")
	case rule.FromClaim:
		r.Claims[p.Name] = v
	case rule.FromMetadata:
		r.Metadata[p.Name] = v
	case rule.FromLabel:
		r.Labels[p.Name] = v
	case rule.FromSAN:
		r.SAN = v
	case rule.FromRoute:
		r.Route = v
	case rule.FromRegion:
		r.Region = v
	case rule.FromClientIP:
		if p.TrustedHops == 0 {
			r.Client = v
			break
		}
		hops := strings.Split(r.Headers["x-forwarded-for"], ", ") // those of fewer hops are there
		for len(hops) < p.TrustedHops {
			hops = append([]string{"unknown"}, hops...)
		}
		hops[len(hops)-p.TrustedHops] = v
		r.Headers["x-forwarded-for"] = strings.Join(hops, ", ")
	}
}
