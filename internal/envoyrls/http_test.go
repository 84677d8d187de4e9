package envoyrls

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/fatal"
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

func TestJSON(t *testing.T) {
	b := newBench(t, specYAML)
	const once = `{"domain":"d","descriptors":[{"entries":[{"key":"nothing","value":""}]}]}`
	for _, c := range []struct {
		body string
		code int
		want string
	}{
		{`{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"a"}]}],"hitsAddend":2}`, 200,
			`{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"requestsPerUnit":5,"unit":"HOUR","name":"per user"},"limitRemaining":3,"durationUntilReset":"1800s"}]}`},
		{`{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"a"}],"hits_addend":"0"}]}`, 200,
			`{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"requestsPerUnit":5,"unit":"HOUR","name":"per user"},"limitRemaining":3,"durationUntilReset":"1800s"}]}`},
		{once, 429,
			`{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT","currentLimit":{"unit":"WEEK"},"durationUntilReset":"516600s"}]}`},
		{`{"domain":"elsewhere","descriptors":[{"entries":[{"key":"x"}]}]}`, 200, `{"overallCode":"OK","statuses":[{"code":"OK"}]}`},
		{`{"domain":"d","descriptors":[{}]}`, 200, `{"overallCode":"OK","statuses":[{"code":"OK"}]}`},
		{`{"domain":"d"}`, 400, "rate limit descriptor list must not be empty"},
		{`{"domain":"d","descriptors":[null]}`, 400, "body is no request"},
		{`{"domain":"d","nosuch":1}`, 400, "body is no request"},
		{`{`, 400, "body is no request"},
		{``, 400, "body is no request"},
		{`[]`, 400, "body is no request"},
		{once + strings.Repeat(" ", maxBody), 413, "body has more than 1048576 bytes"},
	} {
		w := b.post(c.body)
		if w.Code != c.code {
			t.Errorf("%.80s: %d %s, want %d", c.body, w.Code, w.Body, c.code)
			continue
		}
		if limited := w.Header().Get("x-envoy-ratelimited"); (limited == "true") != (c.code == 429) {
			t.Errorf("%.80s: %d with x-envoy-ratelimited %q", c.body, w.Code, limited)
		}
		if c.code == 200 || c.code == 429 {
			if !sameJSON(t, w.Body.String(), c.want) || w.Header().Get("Content-Type") != "application/json" {
				t.Errorf("%s:\n got %s\nwant %s", c.body, w.Body, c.want)
			}
		} else if !strings.HasPrefix(w.Body.String(), c.want) {
			t.Errorf("%.80s: %s, want %s", c.body, w.Body, c.want)
		}
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
		if code := b.http(method, "/healthcheck", "").Code; code != 200 {
			t.Errorf("%s /healthcheck: %d", method, code)
		}
		if code := b.http(method, "/json", `{"domain":"d","descriptors":[{"entries":[{"key":"host"}]}]}`).Code; code != 200 && method != http.MethodPost || code != 429 && method == http.MethodPost {
			t.Errorf("%s /json: %d, want it to count", method, code)
		}
	}
}
