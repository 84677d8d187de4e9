package client_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/quotapb/quotapbconnect"
	"github.com/weirlimit/weir/internal/upstream/client"
	"github.com/weirlimit/weir/internal/wire"
)

// roundTrip makes calls.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A report goes to its own path with the region and the holder filled in, and its answer says for how long somebody
// watches.
func TestReport(t *testing.T) {
	var got wire.ReportRequest
	answer := wire.ReportResponse{Protocol: 1, WatchMs: 5000, Keys: true}
	status := http.StatusOK
	s, err := client.New(client.Config{Addresses: []string{"aggregator:1"}, Region: "eu", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path != quotapbconnect.QuotaServiceReportProcedure {
			t.Errorf("called %s", r.URL)
		}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = got.Decode(body)
		}
		return &http.Response{StatusCode: status, Status: "status", Body: io.NopCloser(bytes.NewReader(answer.Append(nil))), Request: r}, err
	})})
	if err != nil {
		t.Fatal(err)
	}
	if s.Watched() != 0 || s.Silent() != 0 {
		t.Errorf("at first %v, %v", s.Watched(), s.Silent())
	}
	a, err := s.Report(context.Background(), &wire.ReportRequest{IntervalMs: 8000})
	if err != nil || !a.Keys || got.Region != "eu" || len(got.Holder) != 16 || got.IntervalMs != 8000 || got.Check() != "" {
		t.Errorf("%+v, %v; got %+v", a, err, got)
	}
	if left := s.Watched(); left <= 0 || left > 5*time.Second {
		t.Errorf("watched for %v", left)
	}
	answer.WatchMs = 0
	if _, err := s.Report(context.Background(), new(wire.ReportRequest)); err != nil || s.Watched() != 0 {
		t.Errorf("%v, watched for %v", err, s.Watched())
	}
	answer.Protocol = 99
	if a, err := s.Report(context.Background(), new(wire.ReportRequest)); err == nil {
		t.Errorf("of another version: %+v", a)
	}
	status = http.StatusForbidden
	if a, err := s.Report(context.Background(), new(wire.ReportRequest)); err == nil || s.Silent() != 0 {
		t.Errorf("refused: %+v; silent %v", a, s.Silent())
	}
}
