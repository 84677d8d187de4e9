package envoyrls

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/golden"
)

// http sends a body over HTTP.
func (b *bench) http(method, path, body string) *httptest.ResponseRecorder {
	mux, w := http.NewServeMux(), httptest.NewRecorder()
	b.Handle(mux)
	mux.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w
}

// post sends a body to /json.
func (b *bench) post(body string) *httptest.ResponseRecorder {
	return b.http(http.MethodPost, "/json", body)
}

// TestJSON: of what is no request, the first words are the same each time.
func TestJSON(t *testing.T) {
	b := newBench(t, specYAML)
	const once = `{"domain":"d","descriptors":[{"entries":[{"key":"nothing","value":""}]}]}`
	golden.Lines(t, "testdata/json.golden", func(body string) string {
		w, text := b.post(body), new(bytes.Buffer)
		if w.Code == 200 || w.Code == 429 {
			fatal.If(t, json.Compact(text, w.Body.Bytes()))
		} else {
			text.WriteString(strings.Split(strings.TrimSpace(w.Body.String()), ":")[0])
		}
		return fmt.Sprintf("%d %s, x-envoy-ratelimited %q: %s", w.Code, w.Header().Get("Content-Type"), w.Header().Get("x-envoy-ratelimited"), text)
	})
	if w := b.post(once + strings.Repeat(" ", maxBody)); w.Code != 413 || !strings.HasPrefix(w.Body.String(), "body has more than 1048576 bytes") {
		t.Errorf("a large body: %d %s", w.Code, w.Body)
	}
	if w := newBench(t, "").post(once); w.Code != 503 {
		t.Errorf("without configuration: %d %s", w.Code, w.Body)
	}
}

// Where clients have to show certificates, the port without them answers and decides nothing.
func TestNoWayAroundCertificates(t *testing.T) {
	b := newBench(t, specYAML)
	b.cfg.TLS.ClientCA = "ca.pem"
	for path, want := range map[string]int{"/json": 403, "/rlconfig": 403, "/healthcheck": 200} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			w := b.http(method, path, `{"domain":"d","descriptors":[{"entries":[{"key":"user"}]}]}`)
			if w.Code != want {
				t.Errorf("%s %s: %d, want %d", method, path, w.Code, want)
			}
			if want == 403 && !strings.Contains(w.Body.String(), "--rls-tls-client-ca") {
				t.Errorf("%s %s gives no reason: %s", method, path, w.Body)
			}
		}
	}
}

func TestOtherPages(t *testing.T) {
	b := newBench(t, specYAML)
	fatal.If(t, b.bindTo(boundRules, boundTo))
	config := b.http(http.MethodGet, "/rlconfig", "").Body.String()
	for _, line := range []string{
		"d.user: unit=HOUR requests_per_unit=5, shadow_mode: false, quota_mode: false\n",
		"d.plan_gold: unit=DAY requests_per_unit=3, shadow_mode: false, quota_mode: false\n",
		"d.host.path: unit=SECOND requests_per_unit=4, shadow_mode: false, quota_mode: false\n",
		"d.try: unit=HOUR requests_per_unit=1, shadow_mode: true, quota_mode: false\n",
		"d.q1: unit=HOUR requests_per_unit=1, shadow_mode: false, quota_mode: true\n",
		"d.free: unit=UNKNOWN requests_per_unit=0, shadow_mode: false, quota_mode: false\n",
		`"d" "user" "plan"="gold": rule per-user` + "\n",
	} {
		if !strings.Contains(config, line) {
			t.Errorf("/rlconfig has no line %s", line)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodPost} {
		if code := b.http(method, "/json", `{"domain":"d","descriptors":[{"entries":[{"key":"host"}]}]}`).Code; code != 200 && method != http.MethodPost || code != 429 && method == http.MethodPost {
			t.Errorf("%s /json: %d, want it to count", method, code)
		}
	}
}
