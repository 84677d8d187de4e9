package rule

import (
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule/ip"
)

// Match is a condition on a request. All that is stated must hold; the zero value
// holds for every request.
type Match struct {
	// Methods holds for any of these; methods are upper case and compared exactly,
	// as HTTP does, unless IgnoreCase is set.
	Methods []string
	// Hosts holds for any of these, in lower case and without port:
	// "api.example.com", or "*.example.com" for every name below it.
	Hosts []string
	// Paths holds for any of these. The path is compared as Envoy has it, without
	// the query: Envoy normalises it, and routes by the same text.
	Paths []Text
	// Headers, Queries, Cookies, Claims and Labels must all hold; each sorted by Name, which
	// is unique in it. Names of headers are in lower case, a claim is a dotted path into the
	// payload of the request's token, and labels are those of the PoP.
	Headers, Queries, Cookies, Claims, Labels []Named
	// Clients holds for a client whose address is in any of these networks.
	Clients []ip.Prefix
	// TrustedHops is how Clients knows the client, see [Source]; 0 without Clients.
	TrustedHops int
	// Regions holds at PoPs of any of these regions.
	Regions []string
	// Percent holds for some of the keys that the rule's key has.
	Percent Percent
	// Until ends the condition: it holds before this time, in µs since 1970 by the wall clock of
	// the tier that evaluates it; whole seconds, 0: no end.
	Until limit.Micros
	// Not holds if none of these does. They have no Not of their own.
	Not []Match

	// Ignore are the differences from Paths and Methods that do not matter. A key of the
	// path ignores them, too.
	Ignore Spelling
}

// Empty reports whether the condition holds for every request.
func (m Match) Empty() bool {
	return len(m.Methods)+len(m.Hosts)+len(m.Paths)+len(m.Headers)+len(m.Queries)+len(m.Cookies)+len(m.Claims)+
		len(m.Labels)+len(m.Clients)+len(m.Regions)+len(m.Not)+m.TrustedHops+int(m.Ignore) == 0 &&
		m.Percent == Percent{} && m.Until == 0
}

// Fields are the conditions of a [Match] on one kind of what has names.
type Fields struct {
	From From // whose word is their field in the language
	List *[]Named
}

// Fields returns all conditions on what has names.
//
//go:noinline
func (m *Match) Fields() [5]Fields {
	return [...]Fields{{FromHeader, &m.Headers}, {FromQuery, &m.Queries}, {FromCookie, &m.Cookies}, {FromClaim, &m.Claims}, {FromLabel, &m.Labels}}
}

// Percent is a part of all keys, by a hash of the key, see [Set.Seed]: those whose hash is in the
// range of percent that begins with From and ends before To, 0 <= From < To <= 100. The zero value
// is no condition.
type Percent struct{ From, To int }

// Named is a condition on a header, a query parameter, a cookie, a claim or a label.
type Named struct {
	Name string
	Text Text
}

// Text is a condition on a string.
type Text struct {
	Op  Op
	Arg string // the string, prefix, expression or template; empty for OpPresent and OpAbsent
}

// Op is how a [Text] compares.
type Op uint8

// The comparisons.
const (
	OpExact    Op = iota
	OpPrefix      // begins with Arg
	OpRegex       // RE2; must match the whole string
	OpPresent     // not for paths: it is there, even if empty
	OpAbsent      // not for paths: it is not
	OpTemplate    // paths only: /v1/users/{id}, of which {id} is any one segment that is not empty
)
