package topology

import (
	"net"
	"testing"
)

// Whatever a server answers: an address that it names becomes one that can be dialled, or none.
func FuzzReplies(f *testing.F) {
	for _, text := range []string{"MOVED 1 127.0.0.1:6379", "ASK 1 :7000", "MOVED 1 ?:0", "MOVED 1 [::1]:1", "MOVED  ", "NOSCRIPT", "", "ASK 1 a:b:c", "MOVED 1 2001:db8::1:6379", "ASK 1 [[a]]:1"} {
		f.Add(text, "seed:6379")
	}
	f.Fuzz(func(t *testing.T, text, origin string) {
		r := ReplyOf(replyError(text))
		if r.Kind == Done || r.Kind == NoReply || r.Addr != "" && r.Kind != Moved && r.Kind != Ask {
			t.Fatalf("%q: %+v", text, r)
		}
		full := fullAddress(r.Addr, origin)
		if host, port, err := net.SplitHostPort(full); full != "" && (err != nil || host == "" || port == "") {
			t.Errorf("%q named by %q became %q: %v", r.Addr, origin, full, err)
		}
		if again := fullAddress(full, origin); again != full {
			t.Errorf("%q named by %q became %q, then %q", r.Addr, origin, full, again)
		}
		fields(text)
		SlotOf(text)
	})
}
