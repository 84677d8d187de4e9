package ip

import (
	"net/netip"
	"strings"
	"testing"
)

// FuzzAddr holds the parser and the formatter to net/netip.
func FuzzAddr(f *testing.F) {
	for _, s := range []string{
		"1.2.3.4", "01.2.3.4", "1.2.3", "1.2.3.4.5", "256.1.1.1", "1..2.3", "", "::", "::1", "1::", "1:2:3:4:5:6:7:8",
		"1:2:3:4:5:6:7:8:9", "1:2:3:4:5:6:7", "1::2::3", ":::", "1:::2", ":1", "1:", "::ffff:1.2.3.4", "1:2:3:4:5:6:1.2.3.4",
		"1:2:3:4:5:6:7:1.2.3.4", "::1.2.3.4", "1.2.3.4::", "12345::", "g::", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8", "1::3:4:5:6:7:8",
		"0:0:1:0:0:0:1:0", "2001:0db8:0:0:1:0:0:1", "fe80::1", "1:0:0:2:0:0:0:3", "::1:2:3:4:5:6:7:8", "1:2:3:4::5:6:7:8", "1:0:2:3:4:5:6:7", "1:0:0:2:0:0:3:4",
		"::1::2", "::ff:1.2.3.4", "::ff00:1.2.3.4",
	} {
		f.Add(s, uint8(63))
		f.Add(s, uint8(127))
	}
	f.Fuzz(func(t *testing.T, s string, bits uint8) {
		if strings.ContainsAny(s, "[]%") {
			return // taken off before
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
		got := string(Parse(s).AppendTo(nil, prefix))
		if host, _, _ := strings.Cut(s, ":"); strings.Count(s, ":") == 1 && want == "" {
			if a, err := netip.ParseAddr(host); err == nil {
				want = a.String() // what stands after the only ':' is no matter
			}
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	})
}
