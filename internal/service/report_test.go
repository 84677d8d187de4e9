package service_test

import (
	"bytes"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/internal/quotapb/quotapbconnect"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// watcher watches.
type watcher struct {
	got  []*quotapb.ReportRequest
	from []any
	err  error
}

func (*watcher) WatchMs() uint32 { return 5000 }

func (w *watcher) Take(from any, m *quotapb.ReportRequest) (*quotapb.ReportResponse, error) {
	w.got, w.from = append(w.got, m), append(w.from, from)
	return &quotapb.ReportResponse{WatchMs: 5000, Tap: &quotapb.Tap{PerSecond: 7}}, w.err
}

func encoded(t *testing.T, m *quotapb.ReportRequest) []byte {
	t.Helper()
	text := fatal.Get(proto.Marshal(m))(t)
	return text
}

func (r *region) report(contentType string, body []byte) *httptest.ResponseRecorder {
	return r.reportFrom("192.0.2.1:1", contentType, body)
}

func (r *region) reportFrom(address, contentType string, body []byte) *httptest.ResponseRecorder {
	q := httptest.NewRequest("POST", quotapbconnect.QuotaServiceReportProcedure, bytes.NewReader(body))
	q.RemoteAddr = address
	q.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, q)
	return w
}

// A report reaches who watches, and every answer says that somebody does.
func TestReport(t *testing.T) {
	seen := new(watcher)
	r := newRegion(t, func(c *service.Config) { c.Live = seen })
	call := r.call()
	call.Pop = "fra1"
	if a, _ := r.post(call); a.WatchMs != 5000 {
		t.Errorf("Acquire says %d ms", a.WatchMs)
	}
	m := &quotapb.ReportRequest{Protocol: 1, Holder: holderA, Pop: "fra1", Keys: []*quotapb.KeyRate{{Rule: "page", Key: []byte("k"), Count: 5}}}
	w := r.report("application/proto", encoded(t, m))
	a := new(quotapb.ReportResponse)
	if err := proto.Unmarshal(w.Body.Bytes(), a); err != nil || w.Code != 200 || a.Protocol != 1 || a.WatchMs != 5000 || a.Tap == nil || a.Tap.PerSecond != 7 {
		t.Errorf("%d %+v, %v", w.Code, a, err)
	}
	if len(seen.got) != 1 || seen.got[0].Pop != "fra1" || string(seen.got[0].Keys[0].Key) != "k" {
		t.Errorf("%+v", seen.got)
	}
	if w := r.report("application/json", []byte(`{"protocol":1,"holder":"YmJiYmJiYmJiYmJiYmJiYg==","pop":"fra2"}`)); w.Code != 200 || len(seen.got) != 2 || seen.got[1].Pop != "fra2" {
		t.Errorf("as JSON: %d %s", w.Code, w.Body)
	}
	r.reportFrom("192.0.2.1:2", "application/proto", encoded(t, m))
	r.reportFrom("192.0.2.2:1", "application/proto", encoded(t, m))
	if of := seen.from; of[0] != of[2] || of[0] == of[3] {
		t.Errorf("from %v", of)
	}
	if got := newRegion(t).report("application/proto", encoded(t, m)); got.Code != 200 {
		t.Errorf("where nobody can watch: %d %s", got.Code, got.Body)
	}
}

// A report that is wrong is refused with what is wrong, and nobody sees it.
func TestReportRefused(t *testing.T) {
	seen := new(watcher)
	r := newRegion(t, func(c *service.Config) { c.Live = seen })
	for name, c := range map[string]struct {
		change func(*quotapb.ReportRequest)
		want   string
	}{
		"of another version": {func(m *quotapb.ReportRequest) { m.Protocol = 99 }, "protocol: "},
		"no holder":          {func(m *quotapb.ReportRequest) { m.Holder = nil }, "holder: "},
		"a wrong region":     {func(m *quotapb.ReportRequest) { m.Region = "e u" }, "region: "},
		"a short holder":     {func(m *quotapb.ReportRequest) { m.Holder = m.Holder[1:] }, "holder: 15 bytes"},
		"too long":           {func(m *quotapb.ReportRequest) { m.Pop = strings.Repeat("p", 256<<10) }, "262144"},
		"too many items":     {func(m *quotapb.ReportRequest) { m.Keys = make([]*quotapb.KeyRate, 8200) }, "8192 fields"},
	} {
		m := &quotapb.ReportRequest{Protocol: 1, Holder: holderA, Pop: "fra1"}
		c.change(m)
		if w := r.report("application/proto", encoded(t, m)); w.Code != 400 || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: %d %s, want %q", name, w.Code, w.Body, c.want)
		}
	}
	if len(seen.got) != 0 {
		t.Errorf("%d were seen", len(seen.got))
	}
	m := &quotapb.ReportRequest{Protocol: 1, Holder: holderA, Pop: "fra1"}
	seen.err = live.ErrFull
	if w := r.report("application/proto", encoded(t, m)); w.Code != 429 {
		t.Errorf("without room: %d %s", w.Code, w.Body)
	}
	seen.err = errors.New("members: none")
	if w := r.report("application/proto", encoded(t, m)); w.Code != 400 || !strings.Contains(w.Body.String(), "members: none") {
		t.Errorf("refused: %d %s", w.Code, w.Body)
	}
	above := newRegion(t, func(c *service.Config) { c.Live, c.Divides = seen, true })
	if w := above.report("application/proto", encoded(t, m)); w.Code != 400 || !strings.Contains(w.Body.String(), "region: is missing") {
		t.Errorf("without a region: %d %s", w.Code, w.Body)
	}
}
