package rule

import (
	"cmp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirlimit/weir/internal/rule/ip"
)

// A key is text in one notation, in which it is also counted, stored, shown and read: its parts
// joined by '|', each the value of the part's first source, or the mark and the value of an else.
//
//	\\ \|           a backslash, and a '|' within a value
//	\xNN            a byte of what is no UTF-8, of a control character, or of a character above ASCII that is not seen
//	client_ip V     the value V of an else: the source, a blank and V; header x-user V where the source has a name
//	\k and digits   a hash of the whole key, which is too long, see [ShortKey]
//	\h and digits   a hash of the whole key under a secret, see [Secret]
//
// Different values have different keys. Readers also take escapes that are not needed, and a
// backslash before anything else for itself.

// AppendKeyPart appends a value in the notation of keys. It is one part of the canonical key of a request whose part has
// this value from its only source. Parts are joined by '|'. It is not inlined: there are many sources.
//
//go:noinline
func AppendKeyPart[T string | []byte](dst []byte, v T) []byte {
	plain := 0 // appended as far as this
	for i := 0; i < len(v); i++ {
		c := v[i]
		if ' ' <= c && c < 0x7f && c != '\\' && c != '|' {
			continue
		}
		if c >= utf8.RuneSelf {
			var next [utf8.UTFMax]byte
			if r, size := utf8.DecodeRune(next[:copy(next[:], v[i:])]); size > 1 && !unseen(r) {
				i += size - 1
				continue
			}
		}
		dst = append(append(dst, v[plain:i]...), '\\')
		if plain = i; c != '\\' && c != '|' {
			const digits = "0123456789abcdef"
			dst, plain = append(dst, 'x', digits[c>>4], digits[c&15]), i+1
		}
	}
	return append(dst, v[plain:]...)
}

// unseen reports whether a rune above ASCII is a control character, a blank, ends a line or turns its direction. The list
// is part of the notation, which must not change with a version of Unicode.
func unseen(r rune) bool {
	return r <= 0xa0 || r == 0xad || 0x2000 <= r && r <= 0x200f || 0x2028 <= r && r <= 0x202f || 0x205f <= r && r <= 0x206f || r == 0x3000 || r == 0xfeff
}

// appendMark appends what begins a part of a key whose value is from this source, an else.
func (s *Source) appendMark(dst []byte) []byte {
	dst = append(append(dst, s.From.String()...), ' ')
	if s.From.Named() && s.From != FromConst {
		dst = append(AppendKeyPart(dst, strings.ReplaceAll(s.Name, " ", "\xff")), ' ') // no name has this byte
	}
	return dst
}

// guard escapes the blank in a value of an earlier source that begins like the mark of this else.
func (s *Source) guard(dst []byte, value int) []byte {
	end := value + len(s.From.String())
	if end < len(dst) && dst[end] == ' ' && string(dst[value:end]) == s.From.String() {
		dst = append(dst[:end], `\x20`+string(dst[end+1:])...)
	}
	return dst
}

// Read reads a part of a key: which source it has its value from, and the value.
func (p Part) Read(text string) (source int, value string) {
	for n := 1; n < len(p); n++ {
		if rest, ok := strings.CutPrefix(text, string(p[n].appendMark(nil))); ok {
			return n, unescape(rest)
		}
	}
	return 0, unescape(text)
}

func unescape(text string) string {
	var out []byte
	for i := 0; i < len(text); i++ {
		c := text[i]
		if rest := text[i+1:]; c == '\\' && rest != "" {
			if n, err := strconv.ParseUint(rest[1:min(len(rest), 3)], 16, 8); rest[0] == 'x' && len(rest) > 2 && err == nil {
				c, i = byte(n), i+3
			} else if rest[0] == '\\' || rest[0] == '|' {
				c, i = rest[0], i+1
			}
		}
		out = append(out, c)
	}
	return string(out)
}

// SplitKey splits a key into its parts, which stay as they are written.
func SplitKey(key string) (parts []string) {
	from := 0
	for i := 0; i < len(key); i++ {
		switch key[i] {
		case '\\':
			i++ // what it escapes
		case '|':
			parts, from = append(parts, key[from:i]), i+1
		}
	}
	return append(parts, key[from:])
}

// IsHash reports whether a key, as [Rule.KeyOf] takes it, is a hash, behind \h or \k.
func IsHash(key []string) bool {
	if len(key) != 1 || len(key[0]) != hashedKey || key[0][:2] != hashMark && key[0][:2] != longMark {
		return false
	}
	return strings.Trim(key[0][2:], "0123456789abcdef") == ""
}

// KeyParts are the parts of a key that is given as such, or whole as one text.
func (r *Rule) KeyParts(key []string) []string {
	if len(key) == 1 && len(r.Key) > 1 {
		return SplitKey(key[0])
	}
	return key
}

// KeyOf reads a key: its parts, as many as the rule's key has, or all of it, or a hash, as one
// text. It is the key that [Set.Match] makes of requests with these values, without a hash under a
// secret. Of an IPv6 client, a path and a host each spelling is read that requests may have.
func (r *Rule) KeyOf(key []string) []byte { return ShortKey(r.wholeKey(key)) }

// HashedKeyOf is KeyOf of a rule with Hash.
func (r *Rule) HashedKeyOf(key []string, under *Secret) []byte {
	whole := r.wholeKey(key)
	if IsHash(key) {
		return whole
	}
	var out [hashedKey]byte
	under.hash(&out, whole)
	return out[:]
}

func (r *Rule) wholeKey(key []string) (out []byte) {
	if IsHash(key) {
		return []byte(key[0])
	}
	for i, text := range r.KeyParts(key) {
		if i > 0 {
			out = append(out, '|')
		}
		n, v := r.Key[i].Read(text)
		from := r.Key[i][n:]
		if n > 0 {
			out = from[0].appendMark(out)
		}
		switch s := r.Match.Ignore; {
		case s != 0 && from[0].From == FromPath:
			v = string(s.key(s.append(nil, v)))
		case s&IgnoreCase != 0 && from[0].From == FromSegment:
			v = string(IgnoreCase.append(nil, v))
		}
		out = from.AppendValue(out, v)
	}
	return out
}

// AppendValue appends the part of a key for a value that its first source has, and that was
// read elsewhere: of an IPv6 client the prefix, of a path what is before its query. A value
// that is no address is appended unchanged.
func (p Part) AppendValue(dst []byte, value string) []byte {
	switch first := &p[0]; first.From {
	case FromClientIP:
		if a := first.Address(value); a.Valid() {
			return a.AppendTo(dst, cmp.Or(first.IPv6Prefix, defaultIPv6Prefix))
		}
	case FromPath:
		value = (&Request{Path: value}).path()
	case FromHost:
		value = string(IgnoreCase.append(nil, hostName(value)))
	}
	start := len(dst)
	dst = AppendKeyPart(dst, value)
	for n := 1; n < len(p); n++ {
		dst = p[n].guard(dst, start)
	}
	return dst
}

// Address reads the address of a client, or the IPv6 prefix that keys have of it.
func (s *Source) Address(text string) ip.Addr {
	return ip.Parse(strings.TrimSuffix(text, "/"+strconv.Itoa(cmp.Or(s.IPv6Prefix, defaultIPv6Prefix))))
}
