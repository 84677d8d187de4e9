// Package ip reads and writes IP addresses. net/netip does more and would add 150 kB to the filter, which is 0.15 s of
// Envoy's start. A test compares the two.
package ip

import (
	"encoding/binary"
	"strconv"
	"strings"
)

// Addr is an IP address. The zero value is no address.
type Addr struct {
	bits [16]byte // an IPv4 address in the first 4
	size int      // 4 or 16; 0: no address
}

// Valid reports whether a is an address.
func (a Addr) Valid() bool { return a.size > 0 }

// Parse reads an IP address with or without port: 192.0.2.1, 192.0.2.1:80,
// 2001:db8::1, [2001:db8::1]:80. An IPv4 address mapped into IPv6 is IPv4.
func Parse(s string) Addr {
	if rest, ok := strings.CutPrefix(s, "["); ok {
		s, _, _ = strings.Cut(rest, "]")
	} else if i := strings.IndexByte(s, ':'); i >= 0 && i == strings.LastIndexByte(s, ':') {
		s = s[:i]
	}
	s, _, _ = strings.Cut(s, "%") // a zone names a link of this machine, not a client
	if strings.IndexByte(s, ':') >= 0 {
		return parseIPv6(s)
	}
	a := Addr{size: 4}
	if !parseIPv4(s, a.bits[:4]) {
		return Addr{}
	}
	return a
}

// parseIPv4 reads four decimal numbers without leading zeros, which some read as
// octal.
func parseIPv4(s string, dst []byte) bool {
	for i := range dst {
		part, rest, more := strings.Cut(s, ".")
		if more != (i < len(dst)-1) || len(part) > 3 || len(part) > 1 && part[0] == '0' {
			return false
		}
		n, err := strconv.ParseUint(part, 10, 8)
		if err != nil {
			return false
		}
		dst[i], s = byte(n), rest
	}
	return true
}

// parseIPv6 reads eight groups of hexadecimal digits, where :: stands for one or
// more groups of zeros and the last two may be an IPv4 address (RFC 4291, 2.2).
func parseIPv6(s string) Addr {
	a := Addr{size: 16}
	n, gap := 0, -1 // bytes read, and where :: stood among them
	if strings.HasPrefix(s, "::") {
		gap, s = 0, s[2:]
	}
	for s != "" {
		part, rest, more := strings.Cut(s, ":")
		switch {
		case !more && n <= 12 && strings.IndexByte(part, '.') >= 0:
			if !parseIPv4(part, a.bits[n:n+4]) {
				return Addr{}
			}
			n += 4
		case n <= 14 && parseGroup(part, a.bits[n:n+2]):
			n += 2
		default:
			return Addr{}
		}
		if strings.HasPrefix(rest, ":") {
			if gap >= 0 {
				return Addr{}
			}
			gap, rest = n, rest[1:]
		} else if more && rest == "" {
			return Addr{}
		}
		s = rest
	}
	if (n < 16) != (gap >= 0) {
		return Addr{}
	}
	if gap >= 0 {
		moved := copy(a.bits[16-(n-gap):], a.bits[gap:n])
		clear(a.bits[gap : 16-moved])
	}
	return a.unmap()
}

func parseGroup(s string, dst []byte) bool {
	if len(s) > 4 {
		return false
	}
	n, err := strconv.ParseUint(s, 16, 16)
	binary.BigEndian.PutUint16(dst, uint16(n))
	return err == nil
}

// unmap turns ::ffff:192.0.2.1 into 192.0.2.1.
func (a Addr) unmap() Addr {
	for i, b := range a.bits[:12] {
		if i < 10 && b != 0 || i >= 10 && b != 0xff {
			return a
		}
	}
	v4 := Addr{size: 4}
	copy(v4.bits[:4], a.bits[12:])
	return v4
}

// AppendTo appends an IPv4 address whole, an IPv6 address cut to prefix bits as
// "2001:db8::/64" (RFC 5952), and nothing for no address.
func (a Addr) AppendTo(dst []byte, prefix int) []byte {
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

// group returns the group i of an IPv6 address.
func (a Addr) group(i int) uint64 { return uint64(binary.BigEndian.Uint16(a.bits[2*i:])) }

func (a Addr) appendGroups(dst []byte) []byte {
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
func (a Addr) zeros() (start, end int) {
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
