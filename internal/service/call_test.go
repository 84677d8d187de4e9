package service_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/quotapb/quotapbconnect"
	"github.com/weirlimit/weir/internal/service"
	"github.com/weirlimit/weir/internal/wire"
)

// arriving is a body that has arrived when it ends or is refused.
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
	q := httptest.NewRequest(http.MethodPost, procedure, io.NopCloser(body))
	q.RemoteAddr, q.ContentLength = address+":1000", -1
	q.Header.Set("Content-Type", contentType)
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, q)
	return w
}

// Calls whose bodies are on their way are bounded in every procedure and encoding: an address has a quarter. Who is
// refused are its calls and no others, and when those have ended there is room again.
func TestCallsInFlightAreBounded(t *testing.T) {
	const quarter = 8 << 20
	for name, c := range map[string]struct{ procedure, contentType string }{
		"plain": {quotapbconnect.QuotaServiceAcquireProcedure, "application/proto"},
		"json":  {quotapbconnect.QuotaServiceAcquireProcedure, "application/json"},
		"slot":  {quotapbconnect.QuotaServiceSlotProcedure, "application/proto"},
		"rules": {quotapbconnect.QuotaServiceRulesProcedure, "application/proto"},
	} {
		t.Run(name, func(t *testing.T) {
			r := bounded(t, 4*quarter)
			size := wire.MaxMessage
			if c.contentType == "application/json" {
				size /= 16 // it takes 64 times as much
			}
			body := arriving{waits: make(chan struct{}), ends: make(chan struct{})}
			ended := make(chan *httptest.ResponseRecorder)
			waiting, refused := 0, ""
			for refused == "" && waiting < 100 {
				one := body
				one.Reader = bytes.NewReader(make([]byte, size))
				go func() { ended <- r.chunked("10.0.0.1", c.procedure, c.contentType, &one) }()
				select {
				case <-body.waits:
					waiting++
				case w := <-ended:
					if refused = w.Body.String(); w.Code != http.StatusTooManyRequests {
						t.Fatalf("%d %s, want 429", w.Code, w.Body)
					}
				}
			}
			if waiting == 0 || waiting > 8 || !strings.Contains(refused, "max_memory") {
				t.Errorf("%d calls of %d bytes in %d, and %q", waiting, size, quarter, refused)
			}
			honest := func(address string) int {
				return r.chunked(address, quotapbconnect.QuotaServiceAcquireProcedure, "application/proto", bytes.NewReader(r.call(want("page", "k", 1)).Append(nil))).Code
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
			hasMetric(t, r.metrics, "weir_calls_rejected_total 1")
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
			q := httptest.NewRequest(http.MethodPost, quotapbconnect.QuotaServiceAcquireProcedure, &body)
			q.ContentLength = wire.MaxMessage
			q.Header.Set("Content-Type", "application/proto")
			r.handler.ServeHTTP(httptest.NewRecorder(), q)
			ended <- struct{}{}
		}()
		select {
		case <-body.waits:
		case <-ended:
			t.Fatal("refused")
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
		w := r.chunked("10.0.0.1", quotapbconnect.QuotaServiceRulesProcedure, "application/proto", bytes.NewReader((&wire.RulesRequest{Protocol: 1, HaveVersion: have}).Append(nil)))
		if w.Code != status {
			t.Errorf("with %q: %d %s, want %d", have, w.Code, w.Body, status)
		}
	}
}
