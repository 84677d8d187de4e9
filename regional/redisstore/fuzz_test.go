package redisstore

import (
	"net"
	"testing"
)

// Whatever a server says: an address that it names is complete, or left as it is.
func FuzzReplies(f *testing.F) {
	for _, text := range []string{"MOVED 1 127.0.0.1:6379", "ASK 1 :7000", "MOVED 1 ?:0", "MOVED 1 [::1]:1", "MOVED  ", "NOSCRIPT", "", "ASK 1 a:b:c"} {
		f.Add(text, "seed:6379")
	}
	f.Fuzz(func(t *testing.T, text, origin string) {
		v, addr := verdictOf(replyError(text))
		if v == done || v == unheard || addr != "" && v != moved && v != ask {
			t.Fatalf("%q: %d, %q", text, v, addr)
		}
		full := fullAddress(addr, origin)
		if _, _, err := net.SplitHostPort(origin); err != nil && full != addr {
			t.Errorf("%q told by %q became %q", addr, origin, full)
		}
		if again := fullAddress(full, origin); again != full {
			t.Errorf("%q told by %q became %q, then %q", addr, origin, full, again)
		}
		fields(text)
		slotOf(text)
	})
}
