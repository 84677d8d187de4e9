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
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
	"github.com/weirlimit/weir/test/kit/region"
	"github.com/weirlimit/weir/test/kit/stack"
)

// rawJSON is JSON that is embedded as it is.
type rawJSON = json.RawMessage

// A PoP of each module gets bad answers of its region, bad rules, and a bad configuration: none of them decides a request, or
// replaces good ones.
func TestBadInput(t *testing.T) {
	t.Parallel()
	r := region.New(t, region.Config{Dir: proc.LogDir(t), Rules: "rules:\n" + faultRules})
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
	var boots []*envoy.Bootstrap
	s := start(t, stack.Config{RegionAddr: addr, Plugin: map[string]any{"rules_every_ms": 200}, Bootstrap: bothModules(func(b *envoy.Bootstrap, _ bool) {
		boots = append(boots, b)
		b.ListenersFrom(filepath.Join(t.TempDir(), "listeners.json"))
	})})
	t.Run("answers that are cut short", func(t *testing.T) { answersCutShort(t, s, &spoil) })
	t.Run("bad rules", func(t *testing.T) { offersBadRules(t, s, &spoil) })
	t.Run("a bad configuration", func(t *testing.T) {
		proc.Together(len(boots), func(i int) { badConfiguration(t, s.PoPs[i], boots[i]) })
	})
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
	for _, p := range s.PoPs {
		tally := try(t, drive.Load{Addrs: []string{p.Addr}, Conns: 32, PerSecond: 1000, Until: time.Now().Add(2 * time.Second), Request: drive.GetEach("/fail-deny", "x-user", p.Name)})
		if tally.Other(200, 503) > 0 || tally.Status[503] == 0 {
			t.Fatalf("%v, %d without an answer, want 200 and some 503; the PoP has exited: %v", tally.Status, tally.Failed, p.Exited())
		}
	}
	spoil.Store(nil)
	for _, p := range s.PoPs {
		decides(t, p, "after answers that were cut short")
	}
}

// decides waits until a request is decided by the rule of the region: in time, on a busy machine.
func decides(t *testing.T, p *stack.PoP, when string) {
	t.Helper()
	proc.Eventually(t, 10*time.Second, "a request is decided by the good rules "+when, func() bool {
		r, err := stack.Do(p.Addr, http.MethodGet, "/fail-deny", "", "x-user", time.Now().String()) // a listener that drains closes connections
		return err == nil && r.Status == 200 && r.Header.Get("RateLimit") != ""
	})
}

// Rules that a region hands out by mistake do not replace those in force, and the PoP says what is wrong with them.
func offersBadRules(t *testing.T, s *stack.Stack, spoil *atomic.Pointer[spoiler]) {
	for _, c := range []struct{ rules, want string }{
		{`{"rules": [{"name": "fail-deny", "limt": "1/1d"}]}`, "limt"},
		{`{"rules": [`, "rules of the region"},
	} {
		bad := spoiler(func(procedure string, answer *httptest.ResponseRecorder) {
			var m quotav1.RulesResponse
			if procedure != "Rules" || proto.Unmarshal(answer.Body.Bytes(), &m) != nil {
				return
			}
			m.RulesVersion, m.RulesRevision, m.Rules = fmt.Sprintf("%x", md5.Sum([]byte(c.rules))), m.RulesRevision+1, []byte(c.rules)
			b, _ := proto.Marshal(&m) // it has been read
			answer.Header().Set("Content-Length", strconv.Itoa(len(b)))
			answer.Body = bytes.NewBuffer(b)
		})
		spoil.Store(&bad)
		for _, p := range s.PoPs {
			logs(t, p.LogPath(), c.want)
			awaitStat(t, p, configErrors, 1)
			decides(t, p, "while the region offers others")
		}
		spoil.Store(nil)
		for _, p := range s.PoPs {
			awaitStat(t, p, configErrors, 0)
		}
	}
}

// A listener that replaces another one, with a mistake in its plugin configuration, goes
// on with the configuration of that: Envoy itself drains the old one and takes the new.
func badConfiguration(t *testing.T, p *stack.PoP, boot *envoy.Bootstrap) {
	good := boot.Plugin()
	boot.SetPluginText(`{"region_cluster": "weir_region", "ratelimit_headers": false, "typo": 1}`)
	boot.WriteListeners()
	logs(t, p.LogPath(), "typo")
	awaitStat(t, p, configErrors, 1)
	time.Sleep(1500 * time.Millisecond) // the old listener drains for a second
	decides(t, p, "after a bad update")
	boot.SetPluginText("{}")
	boot.SetPlugin(good)
	boot.WriteListeners()
	awaitStat(t, p, configErrors, 0)
	decides(t, p, "after a good update")
}
