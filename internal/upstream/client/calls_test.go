package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/internal/quotapb/quotapbconnect"
	"github.com/weirlimit/weir/internal/upstream/client"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// roundTrip makes calls.
type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A report goes to its own path with the region and the holder filled in, and its answer says for how long somebody
// watches.
func TestReport(t *testing.T) {
	got := new(quotapb.ReportRequest)
	answer := &quotapb.ReportResponse{Protocol: 1, WatchMs: 5000, Tap: new(quotapb.Tap)}
	status := http.StatusOK
	s, err := client.New(client.Config{Addresses: []string{"aggregator:1"}, Region: "eu", Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path != quotapbconnect.QuotaServiceReportProcedure {
			t.Errorf("called %s", r.URL)
		}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = proto.Unmarshal(body, got)
		}
		text, bad := proto.Marshal(answer)
		return &http.Response{StatusCode: status, Status: "status", Body: io.NopCloser(bytes.NewReader(text)), Request: r}, errors.Join(err, bad)
	})})
	fatal.If(t, err)
	if s.Watched() != 0 || s.Silent() != 0 {
		t.Errorf("at first %v, %v", s.Watched(), s.Silent())
	}
	a, err := s.Report(context.Background(), &quotapb.ReportRequest{Pop: "x"})
	if err != nil || a.Tap == nil || got.Region != "eu" || len(got.Holder) != 16 || got.Pop != "x" || got.ProtocolMax != 1 {
		t.Errorf("%+v, %v; got %+v", a, err, got)
	}
	if left := s.Watched(); left <= 0 || left > 5*time.Second {
		t.Errorf("watched for %v", left)
	}
	answer.WatchMs = 0
	if _, err := s.Report(context.Background(), new(quotapb.ReportRequest)); err != nil || s.Watched() != 0 {
		t.Errorf("%v, watched for %v", err, s.Watched())
	}
	answer.Protocol = 99
	if a, err := s.Report(context.Background(), new(quotapb.ReportRequest)); err == nil {
		t.Errorf("of another version: %+v", a)
	}
	status = http.StatusForbidden
	if a, err := s.Report(context.Background(), new(quotapb.ReportRequest)); err == nil || s.Silent() != 0 {
		t.Errorf("refused: %+v; silent %v", a, s.Silent())
	}
}
