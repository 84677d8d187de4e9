package ip

import (
	"strconv"
	"strings"
)

// Prefix is a network: the addresses that begin with the same bits. The zero value has none.
type Prefix struct {
	addr Addr
	bits int
}

// ParsePrefix reads a network as 10.0.0.0/8 or fd00::/8, or an address as the network of it alone.
// A network of IPv4 addresses that are mapped into IPv6 is that of the IPv4 addresses. The address
// may have bits beyond the prefix, see [Prefix.Network].
func ParsePrefix(s string) (p Prefix, ok bool) {
	text, length, stated := strings.Cut(s, "/")
	if strings.ContainsAny(text, "[]%") || strings.Count(text, ":") == 1 {
		return Prefix{}, false
	}
	p.addr = Parse(text)
	p.bits = 8 * p.addr.size
	if !p.addr.Valid() || !stated {
		return p, p.addr.Valid()
	}
	n, err := strconv.ParseUint(length, 10, 8)
	if err != nil || length != strconv.FormatUint(n, 10) {
		return Prefix{}, false
	}
	if p.bits = int(n); p.addr.size == 4 && strings.IndexByte(text, ':') >= 0 {
		p.bits -= 8 * 12 // mapped
	}
	return p, 0 <= p.bits && p.bits <= 8*p.addr.size
}

// Network returns p without the bits of its address that are beyond the prefix.
func (p Prefix) Network() Prefix {
	for i := range p.addr.bits {
		p.addr.bits[i] &= p.mask(i)
	}
	return p
}

// mask has the bits of byte i that belong to the prefix.
func (p Prefix) mask(i int) byte { return 0xff << (8 - min(max(p.bits-8*i, 0), 8)) }

// Has reports whether an address is in the network p, which is its own [Prefix.Network]. No
// address is in none.
func (p Prefix) Has(a Addr) bool {
	if a.size != p.addr.size || a.size == 0 {
		return false
	}
	for i := range a.size {
		if (a.bits[i]^p.addr.bits[i])&p.mask(i) != 0 {
			return false
		}
	}
	return true
}

// String writes the prefix as 10.0.0.0/8 or fd00::/8 (RFC 5952).
func (p Prefix) String() string {
	if p.addr.size != 4 {
		return string(p.addr.appendGroups(nil)) + "/" + strconv.Itoa(p.bits)
	}
	return string(p.addr.AppendTo(nil, 0)) + "/" + strconv.Itoa(p.bits)
}
