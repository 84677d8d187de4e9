package rule

import (
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
	index     int        // in Request.Headers, of FromClaim and FromMetadata in Request.Metadata; -1: it looks at neither
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
	case FromClaim, FromMetadata:
		out.index = slices.Index(in.Metadata, s)
	case FromSegment:
		out.templates = templates(m, s.Name)
	}
	return out
}

// appendKey appends the canonical key of a request in the notation of notation.go, before
// [ShortKey]. An empty value counts as missing. ok is false if a part has no value at all.
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
	var short [hashedKey]byte
	return append(key[:0], digest.Append(append(short[:0], longMark...), key)...)
}

func (m *Matches) appendPart(dst []byte, p part, q *view) ([]byte, bool) {
	start := len(dst)
	for n := range p {
		if n > 0 {
			dst = p[n].appendMark(dst[:start])
		}
		value := len(dst)
		if dst = m.appendSource(dst, &p[n], q); len(dst) > value {
			for i := n + 1; i < len(p); i++ {
				dst = p[i].guard(dst, value)
			}
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
			return AppendKeyPart(dst, q.counted(q.spelling))
		}
	case FromSegment:
		return AppendKeyPart(dst, q.segment(s.templates))
	case FromQuery, FromCookie:
		m.scratch, _ = s.appendField(m.scratch[:0], q)
		return AppendKeyPart(dst, m.scratch)
	}
	start := len(dst)
	dst = AppendKeyPart(dst, s.text(q).Text)
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
	case FromClaim, FromMetadata:
		return q.metadata(s.index)
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

// EachKey calls do with each key of the rule that has a limit of its own; of a rule with Hash, once
// for each secret.
func (r *Rule) EachKey(secrets []Secret, do func(key []byte, own *KeyLimit)) {
	for i := range r.Keys {
		own := &r.Keys[i]
		if !r.Hash || IsHash(own.Key) {
			do(r.KeyOf(own.Key), own)
			continue
		}
		for j := range secrets {
			do(r.HashedKeyOf(own.Key, &secrets[j]), own)
		}
	}
}

// Secret is what keys of rules with Hash are hashed under: nobody without it finds a key by its
// hash.
type Secret [16]byte

const (
	longMark  = `\k`
	hashMark  = `\h`
	hashedKey = len(hashMark) + 32 // bytes
)

// hash makes the key that stands for a canonical key; without a secret one that means nothing.
func (s *Secret) hash(out *[hashedKey]byte, key []byte) {
	if s != nil {
		digest.AppendHex(append(out[:0], hashMark...), siphash.Sum((*[16]byte)(s), key))
	}
}

// Fingerprint tells secrets apart without giving them away. It is never 0.
func (s *Secret) Fingerprint() uint64 {
	sum := siphash.Sum((*[16]byte)(s), []byte("weir"))
	return max(binary.LittleEndian.Uint64(sum[:]), 1)
}
