package rule

import (
	"slices"
	"sort"

	"github.com/weirlimit/weir/internal/limit"
)

// Inputs are the parts of a request that a set of rules uses, beside those that are fetched when they are needed. The
// edge fetches no others: a host call costs more than a decision.
type Inputs struct {
	// Headers are the names of headers, in lower case, sorted: among them :method, :authority and :path, which a Request has
	// in fields of their own.
	Headers []string
	// Metadata are the sources of claims and of dynamic metadata, each once: Envoy keeps both in the metadata of a request.
	Metadata []Source
	ByPath   bool // the path alone may show that no rule applies, see Set.Excludes
}

// Header returns the index of a lower-case name in Headers, -1 if the rules do
// not look at it.
func (in *Inputs) Header(name string) int {
	if i, found := slices.BinarySearch(in.Headers, name); found {
		return i
	}
	return -1
}

// inputs collects what the rules that are not off look at.
func inputs(rules []Rule) Inputs {
	in := Inputs{}
	for i := range rules {
		if rules[i].Mode != Off {
			rules[i].EachSource(in.source)
		}
	}
	sort.Sort(inOrder(in.Headers))
	in.Headers = slices.Compact(in.Headers)
	return in
}

// inOrder sorts texts by package sort, which regexp brings into the filter; slices.Sort would be 18 kB on top.
type inOrder []string

func (x inOrder) Len() int           { return len(x) }
func (x inOrder) Less(i, j int) bool { return x[i] < x[j] }
func (x inOrder) Swap(i, j int)      { x[i], x[j] = x[j], x[i] }

// EachSource calls do with each source that the rule looks at.
func (r *Rule) EachSource(do func(Source)) {
	r.Match.eachSource(do)
	for _, p := range r.Key {
		for _, s := range p {
			do(s)
		}
	}
	for i := range r.Limits {
		r.Limits[i].When.eachSource(do)
	}
	for _, c := range r.ShedClasses() {
		c.When.eachSource(do)
	}
	if r.Cost.By.Name != "" {
		do(r.Cost.By)
	}
}

// eachSource calls do with each source that the condition looks at.
func (m *Match) eachSource(do func(Source)) {
	for _, of := range [...]struct {
		values int
		from   From
	}{{len(m.Methods), FromMethod}, {len(m.Hosts), FromHost}, {len(m.Paths), FromPath}, {len(m.Regions), FromRegion}} {
		if of.values > 0 {
			do(Source{From: of.from})
		}
	}
	if len(m.Clients) > 0 {
		do(Source{TrustedHops: m.TrustedHops})
	}
	for _, f := range m.Fields() {
		for _, n := range *f.List {
			do(Source{From: f.From, Name: n.Name})
		}
	}
	for i := range m.Not {
		m.Not[i].eachSource(do)
	}
}

// source notes what a source looks at.
func (in *Inputs) source(s Source) {
	if name := s.header(); name != "" {
		in.Headers = append(in.Headers, name)
	}
	if (s.From == FromClaim || s.From == FromMetadata) && !slices.Contains(in.Metadata, s) {
		in.Metadata = append(in.Metadata, s)
	}
}

// header is the header that a source looks at; empty: none.
func (s *Source) header() string {
	switch s.From {
	case FromHeader:
		return s.Name
	case FromPath, FromQuery, FromSegment:
		return pathHeader
	case FromMethod:
		return methodHeader
	case FromHost:
		return hostHeader
	case FromCookie:
		return cookieHeader
	}
	if s.TrustedHops > 0 {
		return "x-forwarded-for"
	}
	return ""
}

// Headers with a meaning here.
const (
	methodHeader = ":method"
	hostHeader   = ":authority"
	pathHeader   = ":path"
	cookieHeader = "cookie"
)

// Request is what rules see of a request. The caller fills in what [Set.Inputs]
// asks for and may leave the rest empty. A Request can be used again after
// [Request.Reset]; it is for one goroutine.
type Request struct {
	Method string
	Host   string // :authority, port and all
	Path   string // :path, query and all
	// Headers has the values of Inputs.Headers, in that order. Those beyond its end
	// are absent.
	Headers []Value
	// Secret is what rules with Hash hash their keys under; nil: there is none.
	Secret *Secret
	// Now is the wall clock in µs since 1970.
	Now limit.Micros
	// PoP is where the request is; nil: in no region, and without labels.
	PoP *PoP

	// The fields below are fetched if Fetch is set: each at most once, when a rule that otherwise
	// matches needs it, as many requests match no such rule. Without Fetch the caller fills them in.
	Fetch Fetcher
	// Peer is the address of the peer, with or without port.
	Peer string
	// Metadata has the values of Inputs.Metadata, in that order. Those beyond its end are absent.
	Metadata []Value
	// SAN is the name in the client's certificate, and Route that of the route; empty: none.
	SAN, Route string

	fetched uint8 // bits below
}

// What was fetched of a request.
const (
	fetchedPeer = 1 << iota
	fetchedSAN
	fetchedRoute
)

// Fetcher fetches what a request has beside its headers. What it returns stays valid until the
// request is decided.
type Fetcher interface {
	Peer() string
	Metadata(i int) Value // Inputs.Metadata[i]: a string, a whole number or a boolean; a value of another type is absent
	SAN() string
	Route() string
}

// PoP is what is the same for all requests of a PoP.
type PoP struct {
	Region string
	Labels map[string]string
}

// Value is the value of a request header. A header that is sent several times is
// one value, joined by ',' in the order sent, as RFC 9110 section 5.3 has it and as
// Envoy's own header matching does, whatever other rules there are; cookies are joined by
// "; " (RFC 9113 section 8.2.3).
//
//   - Keys and matches see the joined value: a client that sends two values is counted as
//     neither of them.
//   - A cost is the largest of the values; each value of a list is one.
type Value struct {
	Text    string
	Present bool

	// Unreadable is set for metadata that is there and absent to rules: a list, a fraction. A cost is the most then.
	Unreadable bool

	fetched bool // of metadata
}

// Reset empties q for another request of the set with these inputs. Fetch and PoP are kept.
func (q *Request) Reset(in *Inputs) {
	*q = Request{Fetch: q.Fetch, PoP: q.PoP, Headers: absent(q.Headers, len(in.Headers)), Metadata: absent(q.Metadata, len(in.Metadata))}
}

// absent returns list with so many values that are absent.
//
//go:noinline
func absent(list []Value, n int) []Value {
	list = list[:0]
	for range n {
		list = append(list, Value{})
	}
	return list
}

// Add stores one header of the request, pseudo headers included, if the rules look
// at it. The name is in lower case, as Envoy has it.
func (q *Request) Add(in *Inputs, name, value string) {
	switch name {
	case methodHeader:
		q.Method = value
		return
	case hostHeader:
		q.Host = value
		return
	case pathHeader:
		q.Path = value
		return
	}
	i := in.Header(name)
	if i < 0 {
		return
	}
	v := &q.Headers[i]
	switch {
	case v.Present && name == cookieHeader:
		value = v.Text + "; " + value
	case v.Present:
		value = v.Text + "," + value
	}
	*v = Value{Text: value, Present: true}
}

// once returns one of the fields of q, which is fetched at most once.
func (q *Request) once(what uint8, field *string, fetch func(Fetcher) string) string {
	if q.Fetch != nil && q.fetched&what == 0 {
		*field = fetch(q.Fetch)
		q.fetched |= what
	}
	return *field
}

// metadata returns the value i of Inputs.Metadata.
func (q *Request) metadata(i int) Value {
	if i >= len(q.Metadata) {
		return Value{}
	}
	v := &q.Metadata[i]
	if !v.fetched && q.Fetch != nil {
		*v = q.Fetch.Metadata(i)
		v.fetched = true
	}
	return *v
}

func (q *Request) region() string {
	if q.PoP == nil {
		return ""
	}
	return q.PoP.Region
}

// label returns a label of the PoP.
func (q *Request) label(name string) Value {
	if q.PoP == nil {
		return Value{}
	}
	text, ok := q.PoP.Labels[name]
	return Value{Text: text, Present: ok}
}

// path returns the path without query and fragment.
func (q *Request) path() string {
	for i := range len(q.Path) {
		if c := q.Path[i]; c == '?' || c == '#' {
			return q.Path[:i]
		}
	}
	return q.Path
}
