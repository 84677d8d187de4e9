package service_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/weirlimit/weir/api/quota/v1/quotav1connect"
	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/internal/wire"
	"github.com/weirlimit/weir/test/kit/measure"
)

// arriving is a body that has arrived when it ends or is rejected.
type arriving struct {
	io.Reader
	waits, ends chan struct{}
}

// Read tells that all was read, and waits.
func (a *arriving) Read(p []byte) (int, error) {
	n, err := a.Reader.Read(p)
	if err == io.EOF {
		a.waits <- struct{}{}
		<-a.ends
	}
	return n, err
}

func bounded(t *testing.T, most int64) *region {
	return newRegion(t, func(c *service.Config) { c.MaxCallBytes = most })
}

// chunked sends a call of an address; its body is of a length that is not stated.
func (r *region) chunked(address, procedure, contentType string, body io.Reader) *httptest.ResponseRecorder {
	return r.send(procedure, contentType, io.NopCloser(body), func(q *http.Request) { q.RemoteAddr, q.ContentLength = address+":1000", -1 })
}

// Calls whose bodies are on their way are bounded in every procedure and encoding: an address has a quarter. Who is
// rejected are its calls and no others, and when those have ended there is room again.
func TestCallsInFlightAreBounded(t *testing.T) {
	const quarter = 8 << 20
	for name, c := range map[string]struct{ procedure, contentType string }{
		"plain": {quotav1connect.QuotaServiceAcquireProcedure, "application/proto"},
		"json":  {quotav1connect.QuotaServiceAcquireProcedure, "application/json"},
		"slot":  {quotav1connect.QuotaServiceSlotProcedure, "application/proto"},
		"rules": {quotav1connect.QuotaServiceRulesProcedure, "application/proto"},
	} {
		t.Run(name, func(t *testing.T) {
			r := bounded(t, 4*quarter)
			size := wire.MaxMessage
			if c.contentType == "application/json" {
				size /= 16 // it takes 64 times as much
			}
			body := arriving{waits: make(chan struct{}), ends: make(chan struct{})}
			ended := make(chan *httptest.ResponseRecorder)
			waiting, rejected := 0, ""
			for rejected == "" && waiting < 100 {
				one := body
				one.Reader = bytes.NewReader(make([]byte, size))
				go func() { ended <- r.chunked("10.0.0.1", c.procedure, c.contentType, &one) }()
				select {
				case <-body.waits:
					waiting++
				case w := <-ended:
					if rejected = w.Body.String(); w.Code != http.StatusTooManyRequests {
						t.Fatalf("%d %s, want 429", w.Code, w.Body)
					}
				}
			}
			if waiting == 0 || waiting > 8 || !strings.Contains(rejected, "max_memory") {
				t.Errorf("%d calls of %d bytes in %d, and %q", waiting, size, quarter, rejected)
			}
			honest := func(address string) int {
				return r.chunked(address, quotav1connect.QuotaServiceAcquireProcedure, "application/proto", bytes.NewReader(r.call(want("page", "k", 1)).Append(nil))).Code
			}
			if status := honest("10.0.0.2"); status != http.StatusOK {
				t.Errorf("another address beside these: %d", status)
			}
			close(body.ends)
			for range waiting {
				<-ended
			}
			if status := honest("10.0.0.1"); status != http.StatusOK {
				t.Errorf("when these have ended: %d", status)
			}
			measure.Has(t, r.metrics.Handler(), "weir_calls_rejected_total 1")
		})
	}
}

// A header takes a stream, whatever it states.
func TestHeadersTakeLittle(t *testing.T) {
	r := bounded(t, 4<<20)
	body := arriving{Reader: new(bytes.Buffer), waits: make(chan struct{}), ends: make(chan struct{})}
	ended := make(chan struct{})
	const headers = 60
	for range headers {
		go func() {
			r.send(quotav1connect.QuotaServiceAcquireProcedure, "application/proto", &body, func(q *http.Request) { q.ContentLength = wire.MaxMessage })
			ended <- struct{}{}
		}()
		select {
		case <-body.waits:
		case <-ended:
			t.Fatal("rejected")
		}
	}
	close(body.ends)
	for range headers {
		<-ended
	}
}

// Rules that are sent take their bytes.
func TestRulesInFlightAreBounded(t *testing.T) {
	r := bounded(t, 4*(16<<10+1000))
	text := "rules:\n"
	for i := range 100 {
		text += fmt.Sprintf("  - { name: each-%d, key: [{ header: x-user }], limit: 1000/1m }\n", i)
	}
	r.setRules(text)
	version, _ := r.service.RulesVersion()
	for have, status := range map[string]int{"": http.StatusTooManyRequests, version: http.StatusOK} {
		w := r.chunked("10.0.0.1", quotav1connect.QuotaServiceRulesProcedure, "application/proto", bytes.NewReader((&wire.RulesRequest{Protocol: 1, HaveVersion: have}).Append(nil)))
		if w.Code != status {
			t.Errorf("with %q: %d %s, want %d", have, w.Code, w.Body, status)
		}
	}
}

func TestMalformedBodies(t *testing.T) {
	r := newRegion(t)
	long := append(r.call(want("page", "k", 1)).Append(nil), bytes.Repeat([]byte{0x7a, 0}, wire.MaxMessage/2)...)
	for name, c := range map[string]struct {
		contentType string
		body        []byte
		status      int
		want        string
	}{
		"empty":         {"application/proto", nil, 400, "protocol"},
		"cut short":     {"application/proto", []byte{0x3a, 0x7f}, 400, "cut short"},
		"too long":      {"application/proto", long, 400, "at most 1048576"},
		"not JSON":      {"application/json", []byte("{"), 400, "invalid_argument"},
		"unknown field": {"application/json", []byte(`{"protocol":1,"rate":5}`), 400, ""},
		"text":          {"text/plain", []byte("hello"), 415, ""},
		"compressed":    {"application/proto", []byte("x"), 501, ""}, // it could become any size
	} {
		encoding := map[string]string{"compressed": "gzip"}[name]
		w := r.raw(c.contentType, c.body, "Content-Encoding", encoding)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %s; want %d with %q", name, w.Code, w.Body, c.status, c.want)
		}
	}
}

func TestTimeoutHeader(t *testing.T) {
	r := newRegion(t)
	for text, status := range map[string]int{"100": 200, "0": 200, "": 200, "soon": 400, "-1": 400, "99999999999999": 400} {
		if w := r.raw("application/proto", r.call().Append(nil), "Connect-Timeout-Ms", text); w.Code != status {
			t.Errorf("%q: %d %s, want %d", text, w.Code, w.Body, status)
		}
	}
}

func TestBodyThatBreaksOff(t *testing.T) {
	r := newRegion(t)
	half := io.MultiReader(bytes.NewReader(r.call(want("page", "k", 1)).Append(nil)), iotest.ErrReader(io.ErrUnexpectedEOF))
	w := r.send(quotav1connect.QuotaServiceAcquireProcedure, "application/proto", half, func(*http.Request) {})
	if w.Code == http.StatusOK || !strings.Contains(w.Body.String(), "not received whole") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if g := r.grants(want("page", "k", 10)); g[0].Granted != 10 {
		t.Errorf("half a call was applied: %+v", g)
	}
}

// Calls at once share nothing but the store: each gets its own answer.
func TestHandlerHammer(t *testing.T) {
	r := newRegion(t)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			holder := bytes.Repeat([]byte{byte(i + 1)}, 16)
			key := strings.Repeat(string(rune('a'+i)), i+1)
			for seq := range uint64(200) {
				req := &wire.Request{Protocol: 1, Holder: holder, Seq: seq + 1, Wants: []wire.Want{want("page", key, 1), want("all", "", 1)}}
				out, rejected := r.post(req)
				if out == nil {
					t.Errorf("rejected: %s", rejected)
					return
				}
				if granted := out.Grants[0].Granted == 1; granted != (seq < 10) {
					t.Errorf("%s, request %d: %+v", key, seq, out.Grants[0])
				}
			}
		})
	}
	all.Wait()
	if g := r.grants(want("all", "", 1)); g[0].Status != lease.Denied {
		t.Errorf("1600 requests left some of 100: %+v", g)
	}
}

// FuzzHandler sends any bytes in any encoding: no panic, no 500, and the service goes on.
func FuzzHandler(f *testing.F) {
	r := newRegion(f)
	req := r.call(want("page", "k", 1), wire.Want{Rule: "all", Group: 1, Want: lease.Want{Want: 5, Next: true}}, wire.Want{Rule: "upload", Want: lease.Want{Holding: 3, Want: 4}})
	f.Add(false, req.Append(nil))
	f.Add(true, []byte(`{"protocol":1,"holder":"YWFhYWFhYWFhYWFhYWFhYQ==","seq":"3","wants":[{"rule":"page","key":"aw==","want":"1"}]}`))
	f.Add(false, []byte{0x08, 1, 0x12, 16})
	f.Fuzz(func(t *testing.T, json bool, body []byte) {
		contentType := "application/proto"
		if json {
			contentType = "application/json"
		}
		if w := r.raw(contentType, body); w.Code >= 500 {
			t.Fatalf("%d %s", w.Code, w.Body)
		}
	})
}

// slowStore decides on the key "hung" never, and on all else by the store behind it.
type slowStore struct {
	engine.Store
	ends time.Time     // the deadline, when it was asked last
	left time.Duration // until then
	hung func()        // is called when it hangs; nil: nothing is
}

func (s *slowStore) Acquire(ctx context.Context, asks []engine.Ask, grants []lease.Grant) {
	if ends, ok := ctx.Deadline(); ok {
		s.ends, s.left = ends, time.Until(ends)
	}
	hung := false
	for i := range asks {
		if string(asks[i].Key) == "hung" {
			hung, grants[i] = true, lease.Grant{Status: lease.Unavailable}
		} else {
			s.Store.Acquire(ctx, asks[i:i+1], grants[i:i+1])
		}
	}
	if hung {
		if s.hung != nil {
			s.hung()
		}
		<-ctx.Done()
	}
}

func newSlowRegion(t *testing.T) (*region, *slowStore) {
	store := new(slowStore)
	return newRegion(t, func(c *service.Config) { store.Store, c.Store = c.Store, store }), store
}

// A caller is answered before it gives up, with what was decided by then: in each case
// the store has at least the one and at most the other of the caller's time. On a machine
// that is late the store has less left, but its deadline is no earlier.
func TestAnswersBeforeTheCallerGivesUp(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct{ timeout, least, most time.Duration }{
		{100 * ms, 90 * ms, 90 * ms},
		{300 * ms, 280 * ms, 280 * ms},
		{10 * ms, 8 * ms, 8 * ms},
		{2 * ms, ms, ms},
		{0, 980 * ms, 980 * ms}, // it has none
	} {
		r, store := newSlowRegion(t)
		timeout := ""
		if c.timeout > 0 {
			timeout = strconv.FormatInt(c.timeout.Milliseconds(), 10)
		}
		began := time.Now()
		w := r.raw("application/proto", r.call(want("page", "hung", 1), want("page", "quick", 1)).Append(nil), "Connect-Timeout-Ms", timeout)
		var out wire.Response
		if err := out.Decode(w.Body.Bytes()); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%v: %d %v", c.timeout, w.Code, err)
		}
		if given := store.ends.Sub(began); store.left > c.most || given < c.least {
			t.Errorf("%v: the store had %v of %v, want %v to %v", c.timeout, store.left, given, c.least, c.most)
		}
		if g := out.Grants; g[0].Status != lease.Unavailable || g[1].Status != lease.OK || g[1].Granted != 1 {
			t.Errorf("%v: %+v, want the one unavailable and the other granted", c.timeout, g)
		}
	}
}

// What is granted to a caller that has hung up meanwhile comes back.
func TestCallerThatHangsUp(t *testing.T) {
	r, store := newSlowRegion(t)
	ctx, hangUp := context.WithCancel(t.Context())
	store.hung = hangUp
	body := bytes.NewReader(r.call(want("page", "hung", 1), want("page", "k", 7)).Append(nil))
	r.send(quotav1connect.QuotaServiceAcquireProcedure, "application/proto", body, func(q *http.Request) {
		q.Header.Set("Connect-Timeout-Ms", "60000") // or a late machine ends it first
		*q = *q.WithContext(ctx)
	})
	if g := r.grants(want("page", "k", 10))[0]; g.Granted != 10 {
		t.Errorf("10 of 10, of which nobody has any: %+v", g)
	}
	measure.Has(t, r.metrics.Handler(), "weir_acquire_unheard_total 1")
}
