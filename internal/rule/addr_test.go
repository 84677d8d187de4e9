package rule

import (
	"net/netip"
	"testing"
)

func TestClientIP(t *testing.T) {
	for _, test := range []struct {
		name   string
		hops   int
		prefix int
		peer   string
		xff    string
		want   string
	}{
		{name: "IPv4 with port", prefix: 64, peer: "203.0.113.7:50123", want: "203.0.113.7"},
		{name: "IPv4 alone", prefix: 64, peer: "203.0.113.7", want: "203.0.113.7"},
		{name: "IPv6 with port", prefix: 64, peer: "[2001:db8:1:2:3:4:5:6]:50123", want: "2001:db8:1:2::/64"},
		{name: "IPv6 alone", prefix: 64, peer: "2001:db8:1:2:3:4:5:6", want: "2001:db8:1:2::/64"},
		{name: "prefix 56", prefix: 56, peer: "2001:db8:1:2ff:3:4:5:6", want: "2001:db8:1:200::/56"},
		{name: "prefix 128", prefix: 128, peer: "2001:db8::1", want: "2001:db8::1/128"},
		{name: "prefix 1", prefix: 1, peer: "ffff::1", want: "8000::/1"},
		{name: "IPv4 in IPv6", prefix: 64, peer: "[::ffff:203.0.113.7]:80", want: "203.0.113.7"},
		{name: "zone", prefix: 64, peer: "[fe80::1%eth0]:80", want: "fe80::/64"},
		{name: "loopback", prefix: 64, peer: "::1", want: "::/64"},
		{name: "Unix socket", prefix: 64, peer: "@/tmp/envoy.sock", want: ""},
		{name: "none", prefix: 64, want: ""},

		{name: "forged without trusted hops", prefix: 64, peer: "203.0.113.7:1", xff: "198.51.100.1", want: "203.0.113.7"},
		{name: "one hop", hops: 1, prefix: 64, peer: "10.0.0.1:1", xff: "198.51.100.1", want: "198.51.100.1"},
		{name: "one hop, forged further left", hops: 1, prefix: 64, peer: "10.0.0.1:1", xff: "6.6.6.6, 198.51.100.1", want: "198.51.100.1"},
		{name: "two hops", hops: 2, prefix: 64, peer: "10.0.0.1:1", xff: "6.6.6.6,198.51.100.1 , 10.0.0.9", want: "198.51.100.1"},
		{name: "two hops, one address", hops: 2, prefix: 64, peer: "203.0.113.7:1", xff: "6.6.6.6", want: "203.0.113.7"},
		{name: "with port", hops: 1, prefix: 64, peer: "10.0.0.1:1", xff: "198.51.100.1:9999", want: "198.51.100.1"},
		{name: "IPv6 with port", hops: 1, prefix: 64, peer: "10.0.0.1:1", xff: "[2001:db8::1]:9999", want: "2001:db8::/64"},
		{name: "unknown", hops: 1, prefix: 64, peer: "203.0.113.7:1", xff: "unknown", want: "203.0.113.7"},
		{name: "no header", hops: 1, prefix: 64, peer: "203.0.113.7:1", want: "203.0.113.7"},
		{name: "empty last", hops: 1, prefix: 64, peer: "203.0.113.7:1", xff: "198.51.100.1,", want: "203.0.113.7"},
	} {
		t.Run(test.name, func(t *testing.T) {
			q := view{Request: &Request{Peer: test.peer, Headers: []Value{{Text: test.xff, Present: test.xff != ""}}}}
			s := source{Source: Source{TrustedHops: test.hops, IPv6Prefix: test.prefix}}
			if got := string(s.clientIP(&q).appendTo(nil, s.IPv6Prefix)); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// FuzzAddr holds the parser and the formatter to net/netip.
func FuzzAddr(f *testing.F) {
	for _, s := range []string{
		"1.2.3.4", "01.2.3.4", "1.2.3", "1.2.3.4.5", "256.1.1.1", "1..2.3", "", "::", "::1", "1::", "1:2:3:4:5:6:7:8",
		"1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7", "1::2::3", ":::", "1:::2", ":1", "1:", "::ffff:1.2.3.4", "1:2:3:4:5:6:1.2.3.4",
		"1:2:3:4:5:6:7:1.2.3.4", "::1.2.3.4", "1.2.3.4::", "12345::", "g::", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1::3:4:5:6:7:8",
		"0:0:1:0:0:0:1:0", "2001:0db8:0:0:1:0:0:1", "fe80::1", "1:0:0:2:0:0:0:3", "::1:2:3:4:5:6:7:8", "1:2:3:4::5:6:7:8", "1:0:2:3:4:5:6:7", "1:0:0:2:0:0:3:4",
	} {
		f.Add(s, uint8(63))
		f.Add(s, uint8(127))
	}
	f.Fuzz(func(t *testing.T, s string, bits uint8) {
		for _, c := range []byte(s) {
			if c == '[' || c == ']' || c == '%' {
				return // taken off before
			}
		}
		prefix := int(bits)%128 + 1
		want := ""
		a, err := netip.ParseAddr(s)
		if a = a.Unmap(); err == nil && a.Is4() {
			want = a.String()
		} else if err == nil {
			cut, _ := a.Prefix(prefix)
			want = cut.String()
		}
		got := string(parseAddr(s).appendTo(nil, prefix))
		if host, _, ok := cutOnce(s); ok && want == "" {
			if a, err := netip.ParseAddr(host); err == nil {
				want = a.String() // what stands after the only ':' is no matter
			}
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	})
}

// cutOnce cuts s at its ':' if it has exactly one.
func cutOnce(s string) (before, after string, ok bool) {
	for i := range len(s) {
		if s[i] == ':' {
			if ok {
				return "", "", false
			}
			before, after, ok = s[:i], s[i+1:], true
		}
	}
	return before, after, ok
}
