package dashboard

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func answer(t *testing.T, method, path string, header ...string) *http.Response {
	t.Helper()
	r, w := httptest.NewRequest(method, path, nil), httptest.NewRecorder()
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	Handler().ServeHTTP(w, r)
	return w.Result()
}

// A browser gets each file packed, once, and with the policy that nothing runs or loads but the page's own.
func TestServes(t *testing.T) {
	for path, kind := range map[string]string{"/": "text/html", "/main.js": "javascript", "/main.css": "text/css", "/pages.js": "javascript", "/code.js": "javascript"} {
		r := answer(t, http.MethodGet, path, "Accept-Encoding", "gzip, br")
		if r.StatusCode != 200 || !strings.Contains(r.Header.Get("Content-Type"), kind) || r.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: %s %v", path, r.Status, r.Header)
			continue
		}
		for name, want := range map[string]string{"Content-Security-Policy": "default-src 'self'; frame-ancestors 'none'", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin"} {
			if got := r.Header.Get(name); !strings.HasPrefix(got, want) {
				t.Errorf("%s: %s: %q", path, name, got)
			}
		}
		unpacked, err := gzip.NewReader(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		packed, _ := io.ReadAll(unpacked)
		plain, _ := io.ReadAll(answer(t, http.MethodGet, path).Body)
		if len(plain) == 0 || string(packed) != string(plain) {
			t.Errorf("%s: %d bytes packed, %d plain", path, len(packed), len(plain))
		}
		if again := answer(t, http.MethodGet, path, "If-None-Match", r.Header.Get("ETag"), "Accept-Encoding", "gzip"); again.StatusCode != http.StatusNotModified {
			t.Errorf("%s: %s for who has it", path, again.Status)
		}
		if again := answer(t, http.MethodGet, path, "If-None-Match", r.Header.Get("ETag")); again.StatusCode != 200 {
			t.Errorf("%s: %s plain for who has it packed", path, again.Status)
		}
		if head := answer(t, http.MethodHead, path); head.StatusCode != 200 || head.ContentLength != int64(len(plain)) {
			t.Errorf("HEAD %s: %s, %d bytes", path, head.Status, head.ContentLength)
		}
	}
	for path, status := range map[string]int{"/dist/main.js": 404, "/../go.mod": 404, "/index.html": 200, "/main.js/": 404} {
		if r := answer(t, http.MethodGet, path); r.StatusCode != status {
			t.Errorf("%s: %s", path, r.Status)
		}
	}
	if r := answer(t, http.MethodPost, "/"); r.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("POST /: %s", r.Status)
	}
}
