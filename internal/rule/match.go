package rule

import (
	"regexp"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule/fields"
	"github.com/weirlimit/weir/internal/rule/settle"
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
	// have an else, such as client_ip.
	MissingKey []int
	// Sheds are the rules with Shed that apply to the request, in the order of the set. Rules that
	// are off are never among them, and a part of the key that is missing leaves none out.
	Sheds []ShedHit
	// Exempt are the rules with mode Exempt, by index, that lifted a rule: one that might
	// apply, by its path, was left out. Of several that lift a rule the first one counts.
	Exempt []int

	exempt  []int  // the exempt rules that hold
	keys    []byte // all keys of Hits and Sheds
	scratch []byte // a decoded query parameter
	cookies []fields.Cookie
	parsed  bool // the cookies of this request

	// The path of the request as rules spell it, by their spelling; made is a bit
	// for each that was made for this request.
	spelled [spellings][]byte
	made    uint8
}

// Hit is one rule that applies to a request.
type Hit struct {
	Rule     int    // index in the set
	Variant  int    // 0 for the base limit, i+1 for the override i
	Key      []byte // canonical key of at most MaxKey bytes, see appendKey; empty if all requests share one counter
	Cost     int64  // units, at least 1
	NoSecret bool   // the rule hashes its keys, and the request has no Secret: Key means nothing
}

// Match finds the rules that apply to a request and stores them in m. It does not
// allocate once m has grown, unless a regular expression does. Safe for concurrent
// use with different q and m.
func (s *Set) Match(q *Request, m *Matches) {
	view := s.view(q, m)
	s.index.each(&view, func(i int) {
		if len(m.exempt) > 0 && m.lifted(s, i) {
			return
		}
		if r := &s.evaluators[i]; r.match.holds(&view) {
			m.add(i, r, &view)
		}
	})
}

// view empties m for a request.
func (s *Set) view(q *Request, m *Matches) view {
	m.Hits, m.MissingKey, m.keys, m.made, m.parsed = m.Hits[:0], m.MissingKey[:0], m.keys[:0], 0, false
	m.Exempt, m.exempt, m.Sheds = m.Exempt[:0], m.exempt[:0], m.Sheds[:0]
	for len(q.Headers) < len(s.inputs.Headers) {
		q.Headers = append(q.Headers, Value{})
	}
	return view{Request: q, m: m, path: q.path(), host: hostName(q.Host)}
}

// lifted reports whether an exempt rule that holds lifts the rule i, and notes the first one.
func (m *Matches) lifted(s *Set, i int) bool {
	for _, by := range m.exempt {
		if s.evaluators[by].lifts[i/64]>>(i%64)&1 != 0 {
			if !slices.Contains(m.Exempt, by) {
				m.Exempt = append(m.Exempt, by)
			}
			return true
		}
	}
	return false
}

// Excludes reports that no rule applies to a request with this path, whatever else it has: exempt rules have
// nothing to lift then. Of q it reads the path alone; false says nothing. It uses m as Match does.
func (s *Set) Excludes(q *Request, m *Matches) (excludes bool) {
	m.made, excludes = 0, true
	s.index.each(&view{Request: q, m: m, path: q.path()}, func(i int) { excludes = excludes && i < s.exempt })
	return excludes
}

// add notes that the rule i applies, or that the request lacks its key.
func (m *Matches) add(i int, r *evaluator, q *view) {
	switch {
	case r.lifts != nil:
		m.exempt = append(m.exempt, i)
		return
	case r.classes != nil:
		m.addShed(i, r, q)
		return
	}
	start := len(m.keys)
	q.spelling = r.match.spelling
	keys, ok := m.appendKey(m.keys, r.key, q)
	if !ok {
		m.keys = m.keys[:start]
		m.MissingKey = append(m.MissingKey, i)
		return
	}
	var hashed [hashedKey]byte
	if r.hash {
		q.Secret.hash(&hashed, keys[start:])
	}
	keys = keys[:start+len(ShortKey(keys[start:]))] // in place
	key := keys[start:len(keys):len(keys)]
	if !r.match.keyHolds(q, key) {
		m.keys = keys[:start]
		return
	}
	variant := r.variant(q, key)
	if r.variants[variant].unlimited {
		m.keys = keys[:start]
		return
	}
	if r.hash {
		keys = append(keys[:start], hashed[:]...)
		key = keys[start:len(keys):len(keys)]
	}
	m.keys = keys
	m.Hits = append(m.Hits, Hit{
		Rule:     i,
		NoSecret: r.hash && q.Secret == nil,
		Variant:  variant,
		Key:      key,
		Cost:     r.cost.of(q),
	})
}

// view is a request with what is derived from it once.
type view struct {
	*Request
	m    *Matches
	path string // without query
	host string // without port

	spelling Spelling // of the rule whose key is being made
}

// evaluator is a rule ready to be evaluated.
type evaluator struct {
	match    matcher
	variants []variant // in the order of Limits
	key      []part
	cost     cost
	hash     bool
	classes  []class  // of a rule with Shed; else nil
	lifts    []uint64 // of an exempt rule: a bit for each rule that it lifts; else nil
}

// variant is a [Variant] ready to be evaluated.
type variant struct {
	when  matcher
	limit *limit.Limit
	id    uint64 // see [Set.Override]

	unlimited bool
}

// evaluator makes a rule of a set with this seed ready to be evaluated on requests with these inputs.
func (in *Inputs) evaluator(r *Rule, seed uint64) evaluator {
	begin := beginHash(seed, r.Name)
	e := evaluator{match: in.matcher(&r.Match, begin), cost: cost{r.Cost, in.ready(r.Cost.By, nil)}, hash: r.Hash, classes: in.classes(r.Shed)}
	for i := range r.Limits {
		v := &r.Limits[i]
		l, _ := limit.New(v.Limit) // checked
		e.variants = append(e.variants, variant{in.matcher(&v.When, begin), l, v.ID(i), v.Unlimited})
	}
	for _, p := range r.Key {
		e.key = append(e.key, in.sources(p, &r.Match))
	}
	return e
}

// variant returns the index of the limit that applies.
func (r *evaluator) variant(q *view, key []byte) int {
	for i := 1; i < len(r.variants); i++ {
		if when := &r.variants[i].when; when.holds(q) && when.keyHolds(q, key) {
			return i
		}
	}
	return 0
}

// matcher is a [Match] ready to be evaluated.
type matcher struct {
	spelling Spelling
	methods  []string // in lower case under IgnoreCase
	hosts    []string
	paths    []text
	clauses  *clauses // nil: none of them
}

func (in *Inputs) matcher(m *Match, begin uint64) matcher {
	out := matcher{spelling: m.Ignore, methods: m.Methods, hosts: m.Hosts, clauses: in.clauses(m, begin)}
	if m.Ignore&IgnoreCase != 0 {
		out.methods = nil
		for _, method := range m.Methods {
			out.methods = append(out.methods, strings.ToLower(method))
		}
	}
	for _, p := range m.Paths {
		out.paths = append(out.paths, p.ready(m.Ignore&IgnoreCase != 0))
	}
	return out
}

// holds reports whether m holds, but for what depends on the key.
func (m *matcher) holds(q *view) bool {
	return m.method(q.Method) && m.host(q.host) && m.path(q) && (m.clauses == nil || m.clauses.hold(q))
}

// keyHolds reports whether what depends on the key holds.
func (m *matcher) keyHolds(q *view, key []byte) bool {
	return m.clauses == nil || m.clauses.keyHolds(q, key)
}

func (m *matcher) method(got string) bool {
	for _, want := range m.methods {
		if want == got || m.spelling&IgnoreCase != 0 && equalFold(got, want) {
			return true
		}
	}
	return len(m.methods) == 0
}

func (m *matcher) path(q *view) bool {
	switch {
	case len(m.paths) == 0:
		return true
	case q.path == "":
		return false
	case m.spelling != 0:
		return m.spelledPath(q)
	}
	for i := range m.paths {
		if holds(&m.paths[i], q.path) {
			return true
		}
	}
	return false
}

// spelledPath compares the path in its canonical form under the match's spelling: with
// and without the slash at its end if that does not matter.
func (m *matcher) spelledPath(q *view) bool {
	path, short := q.spelled(m.spelling), q.counted(m.spelling)
	for i := range m.paths {
		if holds(&m.paths[i], path) || len(short) < len(path) && holds(&m.paths[i], short) {
			return true
		}
	}
	return false
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

// text is a [Text] ready to be evaluated.
type text struct {
	op       Op
	arg      string         // in lower case, if case does not matter
	re       *regexp.Regexp // of OpRegex
	template []segment      // of OpTemplate
}

func (t Text) ready(ignoreCase bool) text {
	arg := []byte(t.Arg)
	if ignoreCase {
		lower(arg)
	}
	out := text{op: t.Op, arg: string(arg)}
	switch {
	case t.Op == OpTemplate:
		out.template = segments(out.arg)
	case t.Op == OpRegex && ignoreCase:
		out.re = regexp.MustCompile("(?i)" + Whole(t.Arg)) // checked
	case t.Op == OpRegex:
		out.re = regexp.MustCompile(Whole(t.Arg)) // checked
	}
	return out
}

// Whole makes a regular expression match the whole string, whose line breaks '.' stands for, too: a client can have
// one in a query parameter. One that ends within \Q does not compile then.
func Whole(re string) string { return `\A(?s:` + re + `)\z` }

func matches[T string | []byte](t *text, got T, present bool) bool {
	if t.op == OpAbsent || !present {
		return t.op == OpAbsent && !present
	}
	return holds(t, got)
}

func holds[T string | []byte](t *text, got T) bool {
	switch t.op {
	case OpExact:
		return string(got) == t.arg
	case OpPrefix:
		return len(got) >= len(t.arg) && string(got[:len(t.arg)]) == t.arg
	case OpRegex:
		return t.re.MatchString(string(got))
	case OpTemplate:
		return follows(got, t.template)
	}
	return t.op == OpPresent
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

// cost is a [Cost] ready to be evaluated.
type cost struct {
	Cost
	by source
}

// of returns what a request costs: the most that one of the header's values states,
// whether they came in one header or in several.
func (c *cost) of(q *view) int64 {
	if c.Max == 0 {
		return c.Default
	}
	stated, units := c.by.text(q), int64(0)
	if stated.Unreadable {
		return c.Max
	}
	for list := stated.Text; list != ""; {
		var value string
		value, list, _ = strings.Cut(list, ",")
		if value = strings.Trim(value, " \t"); value != "" {
			units = max(units, c.stated(value))
		}
	}
	if units == 0 {
		return c.Default
	}
	return units
}

// stated returns the cost that one value states, 1 to Max.
func (c *cost) stated(value string) int64 {
	units, ok := settle.Whole(value, c.Max)
	if !ok {
		return c.Max
	}
	return max(units, 1)
}
