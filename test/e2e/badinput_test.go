package e2e

import (
	"crypto/md5"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/test/kit/drive"
	"github.com/weirlimit/weir/test/kit/envoy"
	"github.com/weirlimit/weir/test/kit/proc"
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

// An answer that ends before it is whole counts as none. Envoy finds that out while it
// reads the answer, and would crash if another call were made then.
func TestAnswersCutShort(t *testing.T) {
	t.Parallel()
	region := newFakeRegion(t)
	s := stack.Start(t, stack.Config{PoPs: 1, RegionAddr: region.addr})
	awaitRules(t, s)
	var answers atomic.Int64
	third := answer(func(w http.ResponseWriter, r *quotapb.AcquireResponse) {
		time.Sleep(10 * time.Millisecond) // meanwhile other requests wait for the next call
		if answers.Add(1)%3 > 0 {         // so that the PoP goes on calling
			good(w, r)
			return
		}
		b, err := proto.Marshal(r)
		if err != nil {
			panic(err)
		}
		w.Header().Set("Content-Type", "application/proto")
		w.Header().Set("Content-Length", strconv.Itoa(2*len(b)))
		_, _ = w.Write(b[:len(b)*int(answers.Load()%2)]) // all of it, which is half, or nothing
	})
	region.answer.Store(&third)
	tally := try(t, drive.Load{Addrs: s.Addrs(), Conns: 32, PerSecond: 1000, Until: time.Now().Add(5 * time.Second), Request: drive.GetEach("/fail-deny", "x-user", "u")})
	if tally.Other(200, 503) > 0 || tally.Status[503] == 0 {
		t.Fatalf("%v, %d without an answer, want 200 and some 503; the PoP has exited: %v", tally.Status, tally.Failed, s.PoPs[0].Exited())
	}
	region.answer.Store(&good)
	proc.Eventually(t, 10*time.Second, "a whole answer counts again", func() bool {
		return s.PoPs[0].Get("/fail-deny", "x-user", time.Now().String()).Status == 200
	})
}

// Rules that a region hands out by mistake do not replace those in force, and the
// PoP says what is wrong with them.
func TestRegionOffersBadRules(t *testing.T) {
	t.Parallel()
	region := newFakeRegion(t)
	s := stack.Start(t, stack.Config{PoPs: 1, RegionAddr: region.addr, Plugin: map[string]any{"rules_every_ms": 200}})
	awaitRules(t, s)
	p := s.PoPs[0]
	for _, c := range []struct{ rules, want string }{
		{`{"rules": [{"name": "fail-deny", "limt": "1/1d"}]}`, "limt"},
		{`{"rules": [`, "rules of the region"},
		{`[]`, "rules of the region"},
	} {
		bad := []byte(c.rules)
		region.offers.Store(&bad)
		proc.Eventually(t, 10*time.Second, fmt.Sprintf("the log says %q and config_error is 1 for %s", c.want, c.rules), func() bool {
			return strings.Contains(p.Log(), c.want) && p.Stats(configError)[configError] == 1
		})
		proc.Eventually(t, 10*time.Second, "a request is decided by the good rules", func() bool { // in time, on a busy machine
			r := p.Get("/fail-deny", "x-user", time.Now().String())
			return r.Status == 200 && r.Header.Get("RateLimit") != ""
		})
		region.offers.Store(nil)
		proc.Eventually(t, 10*time.Second, "config_error is 0 again", func() bool { return p.Stats(configError)[configError] == 0 })
	}
}

// Requests that are out of the ordinary are decided like any other.
func requestsOutOfTheOrdinary(t *testing.T, s *stack.Stack) {
	p := s.PoPs[0]
	huge := strings.Repeat("u", 20_000)
	for i := range 5 { // a huge key is a key
		if got, want := p.Get("/told", "x-user", huge).Status, admitted(i < 2); got != want {
			t.Errorf("request %d with a key of 20 kB: status %d, want %d", i+1, got, want)
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

// answer is how a fake region answers an Acquire; good is the answer that a real
// region would have given.
type answer func(w http.ResponseWriter, good *quotapb.AcquireResponse)

// fakeRegion speaks QuotaService as far as a PoP uses it: it grants what is
// waited for, or whatever answer says.
type fakeRegion struct {
	addr   string
	rules  *rule.Set
	answer atomic.Pointer[answer]
	offers atomic.Pointer[[]byte] // instead of rules, if not nil
	wants  atomic.Int64
	debts  sync.Map // units by number; number 0: told without one
}

var good = edit(nil, nil)

// edit answers with the good response after the message, or its bytes, were
// changed; nil changes nothing.
func edit(message func(*quotapb.AcquireResponse), encoded func([]byte) []byte) answer {
	return func(w http.ResponseWriter, r *quotapb.AcquireResponse) {
		if message != nil {
			message(r)
		}
		b, err := proto.Marshal(r)
		if err != nil {
			panic(err)
		}
		if encoded != nil && len(b) > 0 {
			b = encoded(b)
		}
		w.Header().Set("Content-Type", "application/proto")
		_, _ = w.Write(b)
	}
}

func newFakeRegion(t *testing.T) *fakeRegion {
	t.Helper()
	f := &fakeRegion{rules: parse(t, faultRules)}
	f.answer.Store(&good)
	mux := http.NewServeMux()
	mux.HandleFunc("/weir.quota.v1.QuotaService/Acquire", f.acquire)
	mux.HandleFunc("/weir.quota.v1.QuotaService/Rules", f.serveRules)
	server := httptest.NewUnstartedServer(mux)
	server.Config.Protocols = new(http.Protocols)
	server.Config.Protocols.SetUnencryptedHTTP2(true)
	server.Start()
	t.Cleanup(server.Close)
	f.addr = server.Listener.Addr().String()
	return f
}

func (f *fakeRegion) acquire(w http.ResponseWriter, r *http.Request) {
	var req quotapb.AcquireRequest
	if !read(w, r, &req) {
		return
	}
	resp := &quotapb.AcquireResponse{Protocol: 1, Epoch: 1, RulesVersion: req.RulesVersion, Seq: req.Seq, Holders: 1}
	f.wants.Add(int64(len(req.Wants)))
	for _, want := range req.Wants {
		if units, told := f.debts.LoadOrStore(want.Debt, want.Overdrawn); told && units != want.Overdrawn {
			f.debts.Store(uint64(0), want.Overdrawn) // one number for two debts is none
		}
		resp.Grants = append(resp.Grants, &quotapb.Grant{
			Status: quotapb.Status_STATUS_OK, Granted: want.Waiting, Lease: f.lease(want),
			TtlMs: 1000, Limit: 10, Remaining: 5, ResetMs: 60_000,
		})
	}
	(*f.answer.Load())(w, resp)
}

// lease names what a grant is charged to: the shape of the limit, the day.
func (f *fakeRegion) lease(w *quotapb.Want) uint64 {
	i, ok := f.rules.Find(w.Rule)
	if !ok {
		return 0
	}
	day := time.Now().Truncate(24 * time.Hour).UnixMilli()
	return uint64(f.rules.Limit(i, int(w.Variant)).Fingerprint())<<32 | uint64(uint32(day))
}

func (f *fakeRegion) serveRules(w http.ResponseWriter, r *http.Request) {
	var req quotapb.RulesRequest
	if !read(w, r, &req) {
		return
	}
	resp := quotapb.RulesResponse{Protocol: 1, RulesVersion: f.rules.Version, Rules: f.rules.Encode()}
	if offers := f.offers.Load(); offers != nil {
		resp.RulesVersion, resp.Rules = fmt.Sprintf("%x", md5.Sum(*offers)), *offers
	}
	if resp.RulesVersion == req.HaveVersion {
		resp.Rules = nil
	}
	b, err := proto.Marshal(&resp)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/proto")
	_, _ = w.Write(b)
}

func read(w http.ResponseWriter, r *http.Request, m proto.Message) bool {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = proto.Unmarshal(body, m)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
	}
	return err == nil
}
