package ip

import (
	"net/netip"
	"strings"
	"testing"
)

// FuzzPrefix holds networks to net/netip: what is one, how it is written, and which addresses it has.
func FuzzPrefix(f *testing.F) {
	for _, s := range []string{
		"10.0.0.0/8", "10.1.2.3/8", "10.0.0.0/32", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/08", "10.0.0.0/", "/8", "10.0.0.0/8/8", "0.0.0.0/0",
		"192.0.2.1", "fd00::/8", "::/0", "fd00::1/128", "fd00::/129", "::ffff:10.0.0.0/104", "::ffff:10.0.0.0/95", "::ffff:10.0.0.0/96",
		"[fd00::]/8", "fe80::1%eth0/64", "10.0.0.0:80/8", "10/8", "", "localhost", "10.0.0.0/ 8", "10.0.0.0/+8", "10.0.0.0/256",
	} {
		f.Add(s, "10.9.9.9")
		f.Add(s, "::ffff:192.0.2.1")
		f.Add(s, "fd00:1::1")
	}
	f.Fuzz(func(t *testing.T, s, address string) {
		got, ok := ParsePrefix(s)
		want, valid := reference(s)
		if ok != valid {
			t.Fatalf("%q is a network: %v, want %v", s, ok, valid)
		}
		if !ok {
			return
		}
		network := got.Network()
		if got.String() != want.String() || network.String() != want.Masked().String() {
			t.Fatalf("%q is %s of %s, want %s of %s", s, got, network, want, want.Masked())
		}
		if again, ok := ParsePrefix(network.String()); !ok || again != network {
			t.Errorf("%s is read as %s", network, again)
		}
		a, err := netip.ParseAddr(address)
		if err != nil || a.Zone() != "" {
			return
		}
		if has := network.Has(Parse(address)); has != want.Contains(a.Unmap()) {
			t.Errorf("%s has %s: %v", network, address, has)
		}
	})
}

// reference reads a network with net/netip.
func reference(s string) (netip.Prefix, bool) {
	if !strings.Contains(s, "/") {
		a, err := netip.ParseAddr(s)
		if a = a.Unmap(); err != nil || a.Zone() != "" {
			return netip.Prefix{}, false
		}
		return netip.PrefixFrom(a, a.BitLen()), true
	}
	p, err := netip.ParsePrefix(s)
	if err != nil {
		return netip.Prefix{}, false
	}
	if a := p.Addr(); a.Is4In6() {
		p = netip.PrefixFrom(a.Unmap(), p.Bits()-96)
	}
	return p, p.IsValid()
}

// TestNoAddressIsInNoNetwork: what has no address is not in the network of all.
func TestNoAddressIsInNoNetwork(t *testing.T) {
	for _, s := range []string{"0.0.0.0/0", "::/0"} {
		if p, ok := ParsePrefix(s); !ok || p.Has(Addr{}) || (Prefix{}).Has(Addr{}) || (Prefix{}).Has(Parse("::1")) {
			t.Errorf("%s has no address", s)
		}
	}
}
