package rule

import "slices"

// Inputs are the parts of a request that a set of rules uses. The edge fetches no others: a
// host call costs more than a decision.
type Inputs struct {
	Method bool // :method
	Host   bool // :authority
	Path   bool // :path, for matching, for keys, or for query parameters
	ByPath bool // the path alone may show that no rule applies, see Set.Excludes
	Peer   bool // the peer's address
	// Headers are the names of the other headers, in lower case, sorted.
	Headers []string
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
		if r := &rules[i]; r.Mode != Off {
			in.match(r.Match)
			in.header(r.Cost.Header)
			for _, v := range r.Limits {
				in.match(v.When)
			}
			for _, p := range r.Key {
				in.part(p)
			}
		}
	}
	slices.Sort(in.Headers)
	in.Headers = slices.Compact(in.Headers)
	return in
}

func (in *Inputs) match(m Match) {
	in.Method = in.Method || len(m.Methods) > 0
	in.Host = in.Host || len(m.Hosts) > 0
	in.Path = in.Path || len(m.Paths) > 0
	for _, h := range m.Headers {
		in.header(h.Name)
	}
}

func (in *Inputs) part(p Part) {
	for _, s := range p {
		switch s.From {
		case FromHeader:
			in.header(s.Name)
		case FromPath, FromQuery:
			in.Path = true
		case FromMethod:
			in.Method = true
		case FromClientIP:
			in.Peer = true
			if s.TrustedHops > 0 {
				in.header(forwardedFor)
			}
		}
	}
}

const forwardedFor = "x-forwarded-for"

func (in *Inputs) header(name string) {
	if name != "" {
		in.Headers = append(in.Headers, name)
	}
}

// Request is what rules see of a request. The caller fills in what [Set.Inputs]
// asks for and may leave the rest empty. A Request can be used again after
// [Request.Reset]; it is for one goroutine.
type Request struct {
	Method string
	Host   string // :authority, port and all
	Path   string // :path, query and all
	// Peer is the address of the peer, with or without port. If it is empty and
	// FetchPeer is set, FetchPeer is called when a rule that matches needs the
	// address, at most once; many requests match no such rule.
	Peer      string
	FetchPeer func() string
	// Headers has the values of Inputs.Headers, in that order. Those beyond its end
	// are absent.
	Headers []Value

	peerFetched bool
}

// Value is the value of a request header. A header that is sent several times is
// one value, joined by ',' in the order sent, as RFC 9110 section 5.3 has it and as
// Envoy's own header matching does, whatever other rules there are.
//
//   - Keys and matches see the joined value: a client that sends two values is counted as
//     neither of them.
//   - A cost is the largest of the values; each value of a list is one.
type Value struct {
	Text    string
	Present bool
}

// Reset empties q for another request of the set with these inputs. FetchPeer is
// kept.
func (q *Request) Reset(in *Inputs) {
	headers := q.Headers[:0]
	for range in.Headers {
		headers = append(headers, Value{})
	}
	*q = Request{FetchPeer: q.FetchPeer, Headers: headers}
}

// Add stores one header of the request, pseudo headers included, if the rules look
// at it. The name is in lower case, as Envoy has it.
func (q *Request) Add(in *Inputs, name, value string) {
	switch name {
	case ":method":
		q.Method = value
		return
	case ":authority":
		q.Host = value
		return
	case ":path":
		q.Path = value
		return
	}
	i := in.Header(name)
	if i < 0 {
		return
	}
	v := &q.Headers[i]
	if v.Present {
		value = v.Text + "," + value
	}
	*v = Value{Text: value, Present: true}
}

// peer returns the peer's address and fetches it at most once.
func (q *Request) peer() string {
	if q.Peer == "" && !q.peerFetched && q.FetchPeer != nil {
		q.peerFetched = true
		q.Peer = q.FetchPeer()
	}
	return q.Peer
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
