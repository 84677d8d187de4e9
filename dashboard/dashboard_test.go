package dashboard

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
)

// answer is what is answered, which must have this status.
func answer(t *testing.T, method, path string, status int, header ...string) *http.Response {
	t.Helper()
	r, w := httptest.NewRequest(method, path, nil), httptest.NewRecorder()
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	Handler().ServeHTTP(w, r)
	if w.Code != status {
		t.Errorf("%s %s %q: %d, want %d", method, path, header, w.Code, status)
	}
	return w.Result()
}

// A browser gets each file packed, once, and with the policy that nothing runs or loads but the page's own.
func TestServes(t *testing.T) {
	for path, kind := range map[string]string{"/": "text/html", "/main.js": "javascript", "/main.css": "text/css", "/pages.js": "javascript", "/code.js": "javascript"} {
		r := answer(t, http.MethodGet, path, 200, "Accept-Encoding", "gzip, br")
		if !strings.Contains(r.Header.Get("Content-Type"), kind) || r.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: %s %v", path, r.Status, r.Header)
			continue
		}
		for name, want := range map[string]string{"Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin"} {
			if got := r.Header.Get(name); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s: %q", path, name, got)
			}
		}
		packed, _ := io.ReadAll(fatal.Get(gzip.NewReader(r.Body))(t))
		plain, _ := io.ReadAll(answer(t, http.MethodGet, path, 200).Body)
		if len(plain) == 0 || string(packed) != string(plain) {
			t.Errorf("%s: %d bytes packed, %d plain", path, len(packed), len(plain))
		}
		answer(t, http.MethodGet, path, 304, "If-None-Match", r.Header.Get("ETag"), "Accept-Encoding", "gzip")
		answer(t, http.MethodGet, path, 200, "If-None-Match", r.Header.Get("ETag")) // plain, for who has it packed
		if head := answer(t, http.MethodHead, path, 200); head.ContentLength != int64(len(plain)) {
			t.Errorf("HEAD %s: %d bytes", path, head.ContentLength)
		}
	}
	for path, status := range map[string]int{"/dist/main.js": 404, "/../go.mod": 404, "/index.html": 200, "/main.js/": 404} {
		answer(t, http.MethodGet, path, status)
	}
	answer(t, http.MethodPost, "/", http.StatusMethodNotAllowed)
}
