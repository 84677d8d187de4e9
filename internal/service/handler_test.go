package service_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/quotapb/quotapbconnect"
	"github.com/weirlimit/weir/internal/wire"
)

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
	half := io.MultiReader(bytes.NewReader(r.call(want("page", "k", 1)).Append(nil)), broken{})
	q := httptest.NewRequest(http.MethodPost, quotapbconnect.QuotaServiceAcquireProcedure, half)
	q.Header.Set("Content-Type", "application/proto")
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, q)
	if w.Code == http.StatusOK || !strings.Contains(w.Body.String(), "not received whole") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if g := r.grants(want("page", "k", 10)); g[0].Granted != 10 {
		t.Errorf("half a call was applied: %+v", g)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errors.New("connection reset") }

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
				out, refused := r.post(req)
				if out == nil {
					t.Errorf("refused: %s", refused)
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
