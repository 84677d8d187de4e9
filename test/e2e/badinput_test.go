package e2e

import (
	"bytes"
	"crypto/md5"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

// rawJSON is JSON that is embedded as it is.
type rawJSON = json.RawMessage

// A listener that replaces another one, with a mistake in its plugin configuration, goes
// on with the configuration of that: Envoy itself drains the old one and takes the new.
func TestBadConfigurationUpdate(t *testing.T) {
	t.Parallel()
	const good = `{"region_cluster": "weir_region", "before_rules": "deny", "rules": {"rules": [
		{"name": "told", "key": [{"header": "x-user"}], "limit": "1000/1h", "scope": "pop"}]}}`
	var boot *envoy.Bootstrap
	file := filepath.Join(t.TempDir(), "listeners.json")
	s := stack.Start(t, stack.Config{PoPs: 1, Workers: 1, RegionAddr: "127.0.0.1:9", Bootstrap: func(b *envoy.Bootstrap) {
		boot = b
		b.SetPluginText(good)
		b.ListenersFrom(file)
	}})
	p := s.PoPs[0]
	told := func(when string) {
		t.Helper()
		if r := p.Get("/", "x-user", "ann"); r.Status != 200 || r.Header.Get("RateLimit") == "" {
			t.Errorf("%s: status %d, RateLimit %q; want 200 by the rule", when, r.Status, r.Header.Get("RateLimit"))
		}
	}
	told("at first")
	boot.SetPluginText(`{"region_cluster": "weir_region", "ratelimit_headers": false, "typo": 1}`)
	boot.WriteListeners()
	proc.Eventually(t, 10*time.Second, "the log tells of the typo", func() bool { return strings.Contains(p.Log(), "typo") })
	proc.Eventually(t, 5*time.Second, "config_error is 1", func() bool { return p.Stats(configError)[configError] == 1 })
	time.Sleep(1500 * time.Millisecond) // the old listener drains for a second
	told("after a bad update")
	boot.SetPluginText(good)
	boot.WriteListeners()
	proc.Eventually(t, 10*time.Second, "config_error is 0 again", func() bool { return p.Stats(configError)[configError] == 0 })
	told("after a good one")
}

const configError = "wasmcustom.weir.config_error"

// A region that answers badly, again and again: nothing that is no answer decides a request, or replaces rules.
func TestRegionAnswersBadly(t *testing.T) {
	t.Parallel()
	r := region.New(t, region.Config{Dir: proc.LogDir(t), Rules: faultRules})
	r.Start()
	var spoil atomic.Pointer[spoiler]
	addr := stack.Between(t, r.Addr, func(pass http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			answer := httptest.NewRecorder()
			if pass.ServeHTTP(answer, q); answer.Code == http.StatusOK && spoil.Load() != nil {
				(*spoil.Load())(path.Base(q.URL.Path), answer)
			}
			maps.Copy(w.Header(), answer.Header())
			w.WriteHeader(answer.Code)
			_, _ = w.Write(answer.Body.Bytes())
		})
	})
	s := stack.Start(t, stack.Config{PoPs: 1, RegionAddr: addr, Plugin: map[string]any{"rules_every_ms": 200}})
	awaitRules(t, s)
	t.Run("answers that are cut short", func(t *testing.T) { answersCutShort(t, s, &spoil) })
	t.Run("bad rules", func(t *testing.T) { offersBadRules(t, s.PoPs[0], &spoil) })
}

// spoiler changes what a region answers to a procedure.
type spoiler func(procedure string, answer *httptest.ResponseRecorder)

// An answer that ends before it is whole counts as none. Envoy finds that out while it
// reads the answer, and would crash if another call were made then.
func answersCutShort(t *testing.T, s *stack.Stack, spoil *atomic.Pointer[spoiler]) {
	var answers atomic.Int64
	third := spoiler(func(procedure string, answer *httptest.ResponseRecorder) {
		if procedure != "Acquire" {
			return
		}
		time.Sleep(10 * time.Millisecond) // meanwhile other requests wait for the next call
		n := answers.Add(1)
		if n%3 > 0 { // so that the PoP goes on calling
			return
		}
		answer.Header().Set("Content-Length", strconv.Itoa(2*answer.Body.Len()))
		if n%2 == 0 { // half of it, or nothing
			answer.Body.Reset()
		}
	})
	spoil.Store(&third)
	tally := try(t, drive.Load{Addrs: s.Addrs(), Conns: 32, PerSecond: 1000, Until: time.Now().Add(2 * time.Second), Request: drive.GetEach("/fail-deny", "x-user", "u")})
	if tally.Other(200, 503) > 0 || tally.Status[503] == 0 {
		t.Fatalf("%v, %d without an answer, want 200 and some 503; the PoP has exited: %v", tally.Status, tally.Failed, s.PoPs[0].Exited())
	}
	spoil.Store(nil)
	proc.Eventually(t, 10*time.Second, "a whole answer counts again", func() bool {
		return s.PoPs[0].Get("/fail-deny", "x-user", time.Now().String()).Status == 200
	})
}

// Rules that a region hands out by mistake do not replace those in force, and the
// PoP says what is wrong with them.
func offersBadRules(t *testing.T, p *stack.PoP, spoil *atomic.Pointer[spoiler]) {
	for _, c := range []struct{ rules, want string }{
		{`{"rules": [{"name": "fail-deny", "limt": "1/1d"}]}`, "limt"},
		{`{"rules": [`, "rules of the region"},
	} {
		bad := spoiler(func(procedure string, answer *httptest.ResponseRecorder) {
			var m quotapb.RulesResponse
			if procedure != "Rules" || proto.Unmarshal(answer.Body.Bytes(), &m) != nil {
				return
			}
			m.RulesVersion, m.RulesRevision, m.Rules = fmt.Sprintf("%x", md5.Sum([]byte(c.rules))), m.RulesRevision+1, []byte(c.rules)
			b, err := proto.Marshal(&m)
			if err != nil {
				t.Error(err)
			}
			answer.Header().Set("Content-Length", strconv.Itoa(len(b)))
			answer.Body = bytes.NewBuffer(b)
		})
		spoil.Store(&bad)
		proc.Eventually(t, 10*time.Second, fmt.Sprintf("the log says %q and config_error is 1 for %s", c.want, c.rules), func() bool {
			return strings.Contains(p.Log(), c.want) && p.Stats(configError)[configError] == 1
		})
		proc.Eventually(t, 10*time.Second, "a request is decided by the good rules", func() bool { // in time, on a busy machine
			r := p.Get("/fail-deny", "x-user", time.Now().String())
			return r.Status == 200 && r.Header.Get("RateLimit") != ""
		})
		spoil.Store(nil)
		proc.Eventually(t, 10*time.Second, "config_error is 0 again", func() bool { return p.Stats(configError)[configError] == 0 })
	}
}

// Requests that are out of the ordinary are decided like any other.
func requestsOutOfTheOrdinary(t *testing.T, s *stack.Stack) {
	p := s.PoPs[0]
	huge := strings.Repeat("u", 15_000) // Envoy accepts 16 kB of headers
	for i := range 5 {                  // a huge key is a key
		if got, want := p.Get("/told", "x-user", huge).Status, admitted(i < 2); got != want {
			t.Errorf("request %d with a key of 15 kB: status %d, want %d", i+1, got, want)
		}
	}
	if got := p.Get("/told", "x-user", huge+"2").Status; got != 200 {
		t.Errorf("another huge key: status %d, want 200", got)
	}
	for range 5 { // without the key's header the rule does not apply
		if got := p.Get("/told").Status; got != 200 {
			t.Errorf("without the key's header: status %d, want 200", got)
		}
	}
	if got := p.Get("/told", "x-user", strings.Repeat("u", 100_000)).Status; got != 431 {
		t.Errorf("a header that is too large for Envoy: status %d, want 431", got)
	}
	for _, path := range []string{"/told/%00", "//told/..;/x?%%%", "/told?" + strings.Repeat("&", 8000)} {
		if _, err := stack.Do(p.Addr, http.MethodGet, path, ""); err != nil {
			continue // the client refuses to send it
		}
	}
	if got := p.Get("/").Status; got != 200 {
		t.Errorf("afterwards: status %d, want 200", got)
	}
	// A request that waits keeps its body.
	body := strings.Repeat("body", 50_000)
	r, err := stack.Do(p.Addr, http.MethodPost, "/told", body, "x-user", "poster")
	if err != nil || r.Status != 200 {
		t.Errorf("POST of 200 kB that waits for the region: %d, %v", r.Status, err)
	}
}
