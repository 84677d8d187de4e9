package rule

import (
	"math/bits"
	"slices"

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
	// Headers, Queries, Cookies, Claims, Metadata and Labels must all hold; each sorted by Name,
	// which is unique in it. Names of headers are in lower case, a claim is a dotted path into the
	// payload of the request's token, metadata is NAMESPACE:KEY, and labels are those of the PoP.
	Headers, Queries, Cookies, Claims, Metadata, Labels []Named
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
	return len(m.Methods)+len(m.Hosts)+len(m.Paths)+len(m.Headers)+len(m.Queries)+len(m.Cookies)+len(m.Claims)+len(m.Metadata)+
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
func (m *Match) Fields() [6]Fields {
	return [...]Fields{{FromHeader, &m.Headers}, {FromQuery, &m.Queries}, {FromCookie, &m.Cookies}, {FromClaim, &m.Claims}, {FromMetadata, &m.Metadata}, {FromLabel, &m.Labels}}
}

// Percent is a part of all keys, by a hash of the key, see [Set.Seed]: those whose hash is in the
// range of percent that begins with From and ends before To, 0 <= From < To <= 100. The zero value
// is no condition.
type Percent struct{ From, To int }

// Named is a condition on a header, a query parameter, a cookie, a claim, metadata or a label.
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

// clauses are those of a [Match] that most rules do not have, ready to be evaluated.
type clauses struct {
	until   limit.Micros
	regions []string
	fields  []field // all but metadata
	not     []matcher
	clients []ip.Prefix
	client  source  // of clients
	fetched []field // of claims and metadata

	// What is evaluated when the key is made.
	percent Percent
	begin   uint64 // the hash of what is before the key
	late    []matcher
}

// field is a [Named] ready to be evaluated.
type field struct {
	source
	want text
}

// clauses makes them ready to be evaluated; nil if m has none of them. begin is where the hash of
// keys begins.
func (in *Inputs) clauses(m *Match, begin uint64) *clauses {
	c := clauses{until: m.Until, regions: m.Regions, clients: m.Clients, percent: m.Percent, begin: begin}
	c.client = in.ready(Source{From: FromClientIP, TrustedHops: m.TrustedHops}, nil)
	for _, f := range m.Fields() {
		for _, n := range *f.List {
			list := &c.fields
			if f.From == FromClaim || f.From == FromMetadata {
				list = &c.fetched
			}
			*list = append(*list, field{in.ready(Source{From: f.From, Name: n.Name}, nil), n.Text.ready(false)})
		}
	}
	for i := range m.Not {
		list, one := &c.not, in.matcher(&m.Not[i], begin)
		if m.Not[i].Percent != (Percent{}) {
			list = &c.late
		}
		*list = append(*list, one)
	}
	if c.until == 0 && len(c.regions)+len(c.fields)+len(m.Not)+len(c.clients)+len(c.fetched)+c.percent.To == 0 {
		return nil
	}
	return &c
}

// hold evaluates what does not depend on the key; what has to be fetched comes last.
func (c *clauses) hold(q *view) bool {
	return (c.until == 0 || q.Now < c.until) && (len(c.regions) == 0 || slices.Contains(c.regions, q.region())) &&
		allHold(c.fields, q) && c.noneHolds(q) && (len(c.clients) == 0 || c.hasClient(q)) && allHold(c.fetched, q)
}

func allHold(list []field, q *view) bool {
	for i := range list {
		if !list[i].holds(q) {
			return false
		}
	}
	return true
}

func (f *field) holds(q *view) bool {
	if f.From != FromCookie && f.From != FromQuery {
		v := f.text(q)
		return matches(&f.want, v.Text, v.Present)
	}
	value, found := f.appendField(q.m.scratch[:0], q)
	q.m.scratch = value
	return matches(&f.want, value, found)
}

func (c *clauses) noneHolds(q *view) bool {
	for i := range c.not {
		if c.not[i].holds(q) {
			return false
		}
	}
	return true
}

func (c *clauses) hasClient(q *view) bool {
	client := c.client.clientIP(q)
	for i := range c.clients {
		if c.clients[i].Has(client) {
			return true
		}
	}
	return false
}

// Counts reports whether percent and until of the rule i let it count a key, in its short form, at
// a time. All else of its match is about requests.
func (s *Set) Counts(i int, key []byte, now limit.Micros) bool {
	c := s.evaluators[i].match.clauses
	return c == nil || (c.until == 0 || now < c.until) && c.hasKey(key)
}

// hasKey reports whether a key is among the percent of the keys.
func (c *clauses) hasKey(key []byte) bool {
	at := percentOf(c.begin, key)
	return c.percent.To == 0 || at >= c.percent.From && at < c.percent.To
}

// keyHolds evaluates what depends on the key.
func (c *clauses) keyHolds(q *view, key []byte) bool {
	if c.percent.To != 0 && !c.hasKey(key) {
		return false
	}
	for i := range c.late {
		if c.late[i].holds(q) && c.late[i].keyHolds(q, key) {
			return false
		}
	}
	return true
}

// FNV-1a of 64 bits.
const (
	fnvOffset = 0xcbf29ce484222325
	fnvPrime  = 0x100000001b3
)

// HashText is FNV-1a of a text. A client that chooses the text can find another one with the same hash.
func HashText(text []byte) uint64 { return hashOf(fnvOffset, text) }

// HashNumber continues a hash with the eight bytes of a number, the lowest first.
func HashNumber(h, number uint64) uint64 {
	for i := range 8 {
		h = (h ^ number>>(8*i)&0xff) * fnvPrime
	}
	return h
}

// beginHash begins the hash of a key: with the seed in 8 bytes, the lowest first, and the rule's
// name as far as '@', a zero byte behind it. Rules that were made of one rule agree about each key.
func beginHash(seed uint64, name string) uint64 {
	return hashOf(HashNumber(fnvOffset, seed), Written(name)) * fnvPrime
}

func hashOf[T string | []byte](h uint64, text T) uint64 {
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * fnvPrime
	}
	return h
}

// percentOf is the place of a key among all keys, 0 to 99. The end of its hash is that of MurmurHash3: FNV alone
// spreads short keys badly.
func percentOf(begin uint64, key []byte) int {
	h := hashOf(begin, key)
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	place, _ := bits.Mul64(h^h>>33, 100)
	return int(place)
}
