package rule

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	"github.com/weirlimit/weir/internal/rule/digest"
	"github.com/weirlimit/weir/internal/rule/fields"
	"github.com/weirlimit/weir/internal/rule/ip"
	"github.com/weirlimit/weir/internal/rule/siphash"
)

// MaxKey is the longest key, in bytes, that is used unchanged. A longer one is replaced
// by its hash, see [ShortKey], so that every tier can store the key of each counter.
const MaxKey = 96

// part is a [Part] ready to be evaluated.
type part []source

// source is a [Source] ready to be evaluated.
type source struct {
	Source
	index     int        // in Request.Headers, of FromClaim in Request.Claims; -1: it looks at neither
	templates []template // of FromSegment
}

// sources makes a part of the key of a rule with this match ready to be evaluated.
func (in *Inputs) sources(p Part, m *Match) part {
	out := make(part, len(p))
	for i, s := range p {
		out[i] = in.ready(s, m)
	}
	return out
}

// ready makes a source ready to be evaluated; m is only for FromSegment.
func (in *Inputs) ready(s Source, m *Match) source {
	out := source{Source: s, index: in.Header(s.header())}
	switch s.From {
	case FromClaim:
		out.index = slices.Index(in.Claims, s.Name)
	case FromSegment:
		out.templates = templates(m, s.Name)
	}
	return out
}

// appendKey appends the canonical key of a request, before [ShortKey]: the values of the parts
// joined by '|'. Different values give different keys, because within a value
// '\' and '|' are written '\\' and '\|', and marks that no value can contain begin
// everything that is not the plain value of a part's first source:
//
//	\n:   before the value of the part's n-th else
//	\k    before the hash of the whole key, which then is all of it, see ShortKey
//	\h    likewise before the hash under a secret, see [Secret]
//
// An empty value counts as missing. ok is false if a part has no value at all.
func (m *Matches) appendKey(dst []byte, parts []part, q *view) (key []byte, ok bool) {
	for i := range parts {
		if i > 0 {
			dst = append(dst, '|')
		}
		if dst, ok = m.appendPart(dst, parts[i], q); !ok {
			return dst, false
		}
	}
	return dst, true
}

// ShortKey returns the key that is used for a canonical key: itself or, if it is longer
// than [MaxKey], the mark \k and its hash, as 32 hexadecimal digits of BLAKE2b-128.
// It overwrites a key that it replaces. A key made by [AppendKeyPart] must be shortened too,
// so that it is the key that edges ask for.
func ShortKey(key []byte) []byte {
	if len(key) <= MaxKey {
		return key
	}
	var short [34]byte
	return append(key[:0], digest.Append(append(short[:0], '\\', 'k'), key)...)
}

func (m *Matches) appendPart(dst []byte, p part, q *view) ([]byte, bool) {
	start := len(dst)
	for n := range p {
		if n > 0 {
			dst = append(dst[:start], '\\', '0'+byte(n), ':')
		}
		value := len(dst)
		if dst = m.appendSource(dst, &p[n], q); len(dst) > value {
			return dst, true
		}
	}
	return dst, false
}

// appendSource appends nothing if the request does not have the source.
func (m *Matches) appendSource(dst []byte, s *source, q *view) []byte {
	switch s.From {
	case FromClientIP:
		return s.clientIP(q).AppendTo(dst, s.IPv6Prefix)
	case FromPath:
		if q.spelling != 0 {
			return appendValue(dst, q.counted(q.spelling))
		}
	case FromSegment:
		return appendValue(dst, q.segment(s.templates))
	case FromQuery, FromCookie:
		m.scratch, _ = s.appendField(m.scratch[:0], q)
		return appendValue(dst, m.scratch)
	}
	start := len(dst)
	dst = appendValue(dst, s.text(q).Text)
	if s.From == FromHost {
		lower(dst[start:])
	}
	return dst
}

// text returns the value of a source that is text as it stands.
func (s *source) text(q *view) Value {
	text := ""
	switch s.From {
	case FromHeader:
		return q.Headers[s.index]
	case FromClaim:
		return q.claim(s.index)
	case FromLabel:
		return q.label(s.Name)
	case FromConst:
		text = s.Name
	case FromPath:
		text = q.path
	case FromMethod:
		text = q.Method
	case FromHost:
		text = q.host
	case FromSAN:
		text = q.once(fetchedSAN, &q.SAN, Fetcher.SAN)
	case FromRoute:
		text = q.once(fetchedRoute, &q.Route, Fetcher.Route)
	case FromRegion:
		text = q.region()
	}
	return Value{Text: text, Present: text != ""}
}

// appendField appends a cookie or a query parameter; found is false if there is none.
func (s *source) appendField(dst []byte, q *view) (out []byte, found bool) {
	if s.From == FromCookie {
		return fields.AppendCookie(dst, q.cookies(s.index), s.Name)
	}
	return fields.AppendQuery(dst, q.Path, s.Name)
}

// cookies parses the cookies of a request once for all rules. i is the index of their header.
func (q *view) cookies(i int) []fields.Cookie {
	if m := q.m; !m.parsed {
		m.cookies, m.parsed = fields.AppendCookies(m.cookies[:0], q.Headers[i].Text), true
	}
	return q.m.cookies
}

// clientIP returns the client's address. If X-Forwarded-For has fewer addresses
// than trusted hops, the request came past the trusted proxies, and the peer is
// the client.
func (s *source) clientIP(q *view) ip.Addr {
	if s.TrustedHops > 0 {
		if a := ip.Parse(fromRight(q.Headers[s.index].Text, s.TrustedHops)); a.Valid() {
			return a
		}
	}
	return ip.Parse(q.once(fetchedPeer, &q.Peer, Fetcher.Peer))
}

// fromRight returns the n-th element of a comma-separated list from the right,
// counting from 1; empty if it has fewer.
func fromRight(list string, n int) string {
	for ; n > 1; n-- {
		i := strings.LastIndexByte(list, ',')
		if i < 0 {
			return ""
		}
		list = list[:i]
	}
	return strings.Trim(list[strings.LastIndexByte(list, ',')+1:], " \t")
}

// AppendKeyPart appends one part of a key as it is in the canonical key of a request whose
// part has this value from its first source. Parts are joined by '|'.
func AppendKeyPart(dst []byte, value string) []byte { return appendValue(dst, value) }

// AppendValue appends the part of a key for a value that its first source has, and that was
// read elsewhere: of an IPv6 client the prefix, of a path what is before its query. A value
// that is no address is appended unchanged.
func (p Part) AppendValue(dst []byte, value string) []byte {
	switch first := p[0]; first.From {
	case FromClientIP:
		if a := ip.Parse(value); a.Valid() {
			return a.AppendTo(dst, cmp.Or(first.IPv6Prefix, defaultIPv6Prefix))
		}
	case FromPath:
		value = (&Request{Path: value}).path()
	case FromHost:
		value = string(IgnoreCase.append(nil, hostName(value)))
	}
	return appendValue(dst, value)
}

// KeyOf is the key of requests with these values, one for each part of the rule's key. It is
// the key that [Set.Match] makes, without a hash under a secret.
func (r *Rule) KeyOf(values []string) []byte { return ShortKey(r.wholeKey(values)) }

// HashedKeyOf is KeyOf of a rule with Hash.
func (r *Rule) HashedKeyOf(values []string, under *Secret) []byte {
	var out [hashedKey]byte
	under.hash(&out, r.wholeKey(values))
	return out[:]
}

func (r *Rule) wholeKey(values []string) (key []byte) {
	for i, v := range values {
		if i > 0 {
			key = append(key, '|')
		}
		switch s, from := r.Match.Ignore, r.Key[i][0].From; {
		case s != 0 && from == FromPath:
			v = string(s.key(s.append(nil, v)))
		case s&IgnoreCase != 0 && from == FromSegment:
			v = string(IgnoreCase.append(nil, v))
		}
		key = r.Key[i].AppendValue(key, v)
	}
	return key
}

// EachKey calls do with each key of the rule that has a limit of its own; of a rule with Hash, once
// for each secret.
func (r *Rule) EachKey(secrets []Secret, do func(key []byte, own *KeyLimit)) {
	for i := range r.Keys {
		own := &r.Keys[i]
		switch {
		case own.Hash != "":
			do([]byte(hashMark+own.Hash), own)
		case r.Hash:
			for j := range secrets {
				do(r.HashedKeyOf(own.Key, &secrets[j]), own)
			}
		default:
			do(r.KeyOf(own.Key), own)
		}
	}
}

// Secret is what keys of rules with Hash are hashed under: nobody without it finds a key by its
// hash.
type Secret [16]byte

const (
	hashMark  = `\h`
	hashedKey = len(hashMark) + 32 // bytes
)

// hash makes the key that stands for a canonical key; without a secret one that means nothing.
func (s *Secret) hash(out *[hashedKey]byte, key []byte) {
	if s == nil {
		return
	}
	sum := siphash.Sum((*[16]byte)(s), key)
	n := copy(out[:], hashMark)
	for i, b := range sum {
		const digits = "0123456789abcdef"
		out[n+2*i], out[n+2*i+1] = digits[b>>4], digits[b&15]
	}
}

// HashOf is the key of a rule with Hash for a canonical key, before [ShortKey], or for such a hash itself: no canonical
// key is like one.
func (s *Secret) HashOf(key []byte) []byte {
	if len(key) == hashedKey && string(key[:len(hashMark)]) == hashMark {
		return key
	}
	var out [hashedKey]byte
	s.hash(&out, key)
	return out[:]
}

// Fingerprint tells secrets apart without giving them away. It is never 0.
func (s *Secret) Fingerprint() uint64 {
	sum := siphash.Sum((*[16]byte)(s), []byte("weir"))
	return max(binary.LittleEndian.Uint64(sum[:]), 1)
}

// appendValue appends a value, in which \ and | are escaped. It is not inlined: there are many sources.
//
//go:noinline
func appendValue[T string | []byte](dst []byte, v T) []byte {
	plain := 0 // appended as far as this
	for i := range len(v) {
		if v[i] == '\\' || v[i] == '|' {
			dst = append(append(dst, v[plain:i]...), '\\')
			plain = i
		}
	}
	return append(dst, v[plain:]...)
}
