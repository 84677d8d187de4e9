package rule

import (
	"regexp"
	"strings"
)

// Matches is what [Set.Match] found. It can be used again; what it holds is valid
// until then. The zero value is ready to use.
type Matches struct {
	// Hits are the rules that apply to the request, in the order of the set. Rules
	// that are off are never among them.
	Hits []Hit
	// MissingKey are the rules, by index, that would apply but for a part of their
	// key that the request does not have and that has no else. They do not count
	// the request: one counter for everybody without the header would let any
	// client use up the limit of all others. Rules that must cover such requests
	// say so: else: client_ip.
	MissingKey []int

	keys    []byte // all keys of Hits
	scratch []byte // a decoded query parameter
}

// Hit is one rule that applies to a request.
type Hit struct {
	Rule    int    // index in the set
	Variant int    // 0 for the base limit, i+1 for the override i
	Key     []byte // canonical key, see appendKey; empty if all requests share one counter
	Cost    int64  // units, at least 1
}

// Match finds the rules that apply to a request and stores them in m. It does not
// allocate once m has grown, unless a regular expression does. Safe for concurrent
// use with different q and m.
func (s *Set) Match(q *Request, m *Matches) {
	m.Hits, m.MissingKey, m.keys = m.Hits[:0], m.MissingKey[:0], m.keys[:0]
	for len(q.Headers) < len(s.inputs.Headers) {
		q.Headers = append(q.Headers, Value{})
	}
	view := view{Request: q, path: q.path(), host: hostName(q.Host)}
	s.index.each(view.path, func(i int) {
		if r := &s.compiled[i]; r.match.holds(&view) {
			m.add(i, r, &view)
		}
	})
}

func (m *Matches) add(i int, r *compiled, q *view) {
	start := len(m.keys)
	keys, ok := m.appendKey(m.keys, r.key, q)
	if !ok {
		m.keys = m.keys[:start]
		m.MissingKey = append(m.MissingKey, i)
		return
	}
	m.keys = keys
	m.Hits = append(m.Hits, Hit{
		Rule:    i,
		Variant: r.variant(q),
		Key:     keys[start:len(keys):len(keys)],
		Cost:    r.cost.of(q),
	})
}

// view is a request with what is derived from it once.
type view struct {
	*Request
	path string // without query
	host string // without port
}

// compiled is a rule made ready to be evaluated.
type compiled struct {
	match matcher
	whens []matcher // of the overrides
	key   []part
	cost  cost
}

// variant returns the index of the limit that applies.
func (r *compiled) variant(q *view) int {
	for i := range r.whens {
		if r.whens[i].holds(q) {
			return i + 1
		}
	}
	return 0
}

// matcher is a compiled [Match].
type matcher struct {
	methods []string
	hosts   []string
	paths   []text
	headers []header
}

type header struct {
	index int // in Request.Headers
	text  text
}

func (m *matcher) holds(q *view) bool {
	return m.method(q.Method) && m.path(q.path) && m.host(q.host) && m.header(q.Headers)
}

func (m *matcher) method(got string) bool {
	for _, want := range m.methods {
		if want == got {
			return true
		}
	}
	return len(m.methods) == 0
}

func (m *matcher) path(got string) bool {
	for i := range m.paths {
		if m.paths[i].holds(got, got != "") {
			return true
		}
	}
	return len(m.paths) == 0
}

func (m *matcher) host(got string) bool {
	for _, want := range m.hosts {
		if suffix, ok := strings.CutPrefix(want, "*"); ok {
			if cut := len(got) - len(suffix); cut > 0 && equalFold(got[cut:], suffix) {
				return true
			}
		} else if equalFold(got, want) {
			return true
		}
	}
	return len(m.hosts) == 0
}

func (m *matcher) header(got []Value) bool {
	for i := range m.headers {
		h := &m.headers[i]
		if v := got[h.index]; !h.text.holds(v.Text, v.Present) {
			return false
		}
	}
	return true
}

// text is a compiled [Text].
type text struct {
	op  Op
	arg string
	re  *regexp.Regexp // of OpRegex
}

func (t *text) holds(got string, present bool) bool {
	switch {
	case t.op == OpAbsent:
		return !present
	case !present:
		return false
	case t.op == OpExact:
		return got == t.arg
	case t.op == OpPrefix:
		return strings.HasPrefix(got, t.arg)
	case t.op == OpRegex:
		return t.re.MatchString(got)
	}
	return true // OpPresent
}

// hostName takes the port and the root's dot off an :authority.
func hostName(authority string) string {
	if i := strings.LastIndexByte(authority, ':'); i >= 0 && strings.IndexByte(authority[i:], ']') < 0 {
		authority = authority[:i]
	}
	return strings.TrimSuffix(authority, ".")
}

// equalFold reports whether got, in any case, is the lower-case ASCII name want.
func equalFold(got, want string) bool {
	if len(got) != len(want) {
		return false
	}
	for i := range len(got) {
		c := got[i]
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != want[i] {
			return false
		}
	}
	return true
}

// cost is a compiled [Cost].
type cost struct {
	header int // in Request.Headers; -1 if the cost is fixed
	fixed  int64
	most   int64
}

func (c *cost) of(q *view) int64 {
	if c.header < 0 || q.Headers[c.header].Text == "" {
		return c.fixed
	}
	units := int64(0)
	for _, d := range []byte(q.Headers[c.header].Text) {
		if d < '0' || d > '9' {
			return c.most
		}
		if units = units*10 + int64(d-'0'); units > c.most {
			return c.most
		}
	}
	return max(units, 1)
}
