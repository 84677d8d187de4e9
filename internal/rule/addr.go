package rule

import (
	"strconv"
	"strings"
)

// addr is an IP address. net/netip has a better one, which adds 150 kB to the
// filter and so 0.15 s to Envoy's start; a test holds the two together.
type addr struct {
	bits [16]byte // an IPv4 address in the first 4
	size int      // 4 or 16; 0: no address
}

// clientIP returns the client's address. If X-Forwarded-For has fewer addresses
// than trusted hops, the request came past the trusted proxies, and the peer is
// the client.
func (s *source) clientIP(q *view) addr {
	if s.TrustedHops > 0 {
		if a := parseAddr(fromRight(q.Headers[s.header].Text, s.TrustedHops)); a.size > 0 {
			return a
		}
	}
	return parseAddr(q.peer())
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

// parseAddr reads an IP address with or without port: 192.0.2.1, 192.0.2.1:80,
// 2001:db8::1, [2001:db8::1]:80. An IPv4 address mapped into IPv6 is IPv4.
func parseAddr(s string) addr {
	if rest, ok := strings.CutPrefix(s, "["); ok {
		s, _, _ = strings.Cut(rest, "]")
	} else if i := strings.IndexByte(s, ':'); i >= 0 && i == strings.LastIndexByte(s, ':') {
		s = s[:i]
	}
	s, _, _ = strings.Cut(s, "%") // a zone names a link of this machine, not a client
	if strings.IndexByte(s, ':') >= 0 {
		return parseIPv6(s)
	}
	a := addr{size: 4}
	if !parseIPv4(s, a.bits[:4]) {
		return addr{}
	}
	return a
}

// parseIPv4 reads four decimal numbers without leading zeros, which some read as
// octal.
func parseIPv4(s string, dst []byte) bool {
	for i := range dst {
		part, rest, more := strings.Cut(s, ".")
		if more != (i < len(dst)-1) || part == "" || len(part) > 3 || part[0] == '0' && len(part) > 1 {
			return false
		}
		n := 0
		for _, c := range []byte(part) {
			if !isDigit(c) {
				return false
			}
			n = n*10 + int(c-'0')
		}
		if n > 255 {
			return false
		}
		dst[i], s = byte(n), rest
	}
	return true
}

// parseIPv6 reads eight groups of hexadecimal digits, where :: stands for one or
// more groups of zeros and the last two may be an IPv4 address (RFC 4291, 2.2).
func parseIPv6(s string) addr {
	a := addr{size: 16}
	n, gap := 0, -1 // bytes read, and where :: stood among them
	if strings.HasPrefix(s, "::") {
		gap, s = 0, s[2:]
	}
	for s != "" {
		part, rest, more := strings.Cut(s, ":")
		switch {
		case !more && n <= 12 && strings.IndexByte(part, '.') >= 0:
			if !parseIPv4(part, a.bits[n:n+4]) {
				return addr{}
			}
			n += 4
		case n <= 14 && parseGroup(part, a.bits[n:n+2]):
			n += 2
		default:
			return addr{}
		}
		if strings.HasPrefix(rest, ":") {
			if gap >= 0 {
				return addr{}
			}
			gap, rest = n, rest[1:]
		} else if more && rest == "" {
			return addr{}
		}
		s = rest
	}
	if (n < 16) != (gap >= 0) {
		return addr{}
	}
	if gap >= 0 {
		moved := copy(a.bits[16-(n-gap):], a.bits[gap:n])
		clear(a.bits[gap : 16-moved])
	}
	return a.unmap()
}

func parseGroup(s string, dst []byte) bool {
	if s == "" || len(s) > 4 {
		return false
	}
	n := 0
	for i := range len(s) {
		digit := unhex(s[i])
		if digit < 0 {
			return false
		}
		n = n<<4 | digit
	}
	dst[0], dst[1] = byte(n>>8), byte(n)
	return true
}

// unmap turns ::ffff:192.0.2.1 into 192.0.2.1.
func (a addr) unmap() addr {
	for i, b := range a.bits[:12] {
		if i < 10 && b != 0 || i >= 10 && b != 0xff {
			return a
		}
	}
	v4 := addr{size: 4}
	copy(v4.bits[:4], a.bits[12:])
	return v4
}

// appendTo appends an IPv4 address whole, an IPv6 address cut to prefix bits as
// "2001:db8::/64" (RFC 5952), and nothing for no address.
func (a addr) appendTo(dst []byte, prefix int) []byte {
	switch a.size {
	case 4:
		for i, b := range a.bits[:4] {
			if i > 0 {
				dst = append(dst, '.')
			}
			dst = strconv.AppendUint(dst, uint64(b), 10)
		}
	case 16:
		for i := range a.bits {
			keep := min(max(prefix-i*8, 0), 8)
			a.bits[i] &= 0xff << (8 - keep)
		}
		dst = a.appendGroups(dst)
		dst = strconv.AppendInt(append(dst, '/'), int64(prefix), 10)
	}
	return dst
}

func (a addr) group(i int) uint64 { return uint64(a.bits[2*i])<<8 | uint64(a.bits[2*i+1]) }

func (a addr) appendGroups(dst []byte) []byte {
	start, end := a.zeros()
	for i := 0; i < 8; i++ {
		if i == start {
			dst = append(dst, ':', ':')
			if i = end; i == 8 {
				break
			}
		} else if i > 0 {
			dst = append(dst, ':')
		}
		dst = strconv.AppendUint(dst, a.group(i), 16)
	}
	return dst
}

// zeros returns the longest run of two or more groups of zeros, the first of
// several; start is -1 if there is none.
func (a addr) zeros() (start, end int) {
	start = -1
	for i := 0; i < 8; i++ {
		j := i
		for j < 8 && a.group(j) == 0 {
			j++
		}
		if j-i >= 2 && j-i > end-max(start, 0) {
			start, end = i, j
		}
		i = max(i, j-1)
	}
	return start, end
}
