package client

import (
	"context"
	"errors"
	"time"

	"google.golang.org/protobuf/proto"

	quotav1 "github.com/weirlimit/weir/api/quota/v1"
	"github.com/weirlimit/weir/api/quota/v1/quotav1connect"
	"github.com/weirlimit/weir/internal/wire"
)

// reportTime bounds a report.
const reportTime = time.Second

// errUnavailable is why no report is made.
var errUnavailable = errors.New("the aggregator does not answer")

// Unavailable is for how long the aggregator has not answered; 0: it answers.
func (s *Store) Unavailable() time.Duration { return s.aggregator.unavailableFor() }

// Watched is for how long from now somebody watches at the aggregator; 0: nobody.
func (s *Store) Watched() time.Duration {
	until := s.watchUntil.Load()
	if until == nil {
		return 0
	}
	return max(time.Until(*until), 0)
}

// watched takes for how many milliseconds somebody watches, of the answer to a call that was sent then. That it knows
// of nobody ends no watch: others of the aggregator may.
func (s *Store) watched(sent time.Time, ms uint32) {
	if ms > 0 {
		until := sent.Add(time.Duration(min(ms, wire.LongestWatch)) * time.Millisecond)
		s.watchUntil.Store(&until)
	}
}

// Report shows the aggregator what the region does, beside all other calls: one that fails is neither repeated nor
// counted. Protocol, holder and region are filled in.
func (s *Store) Report(ctx context.Context, m *quotav1.ReportRequest) (*quotav1.ReportResponse, error) {
	if s.aggregator.unavailable() {
		return nil, errUnavailable
	}
	m.Protocol, m.ProtocolMax = wire.ProtocolMin, wire.ProtocolMax
	m.Holder, m.Worker, m.Region = s.holder[:], s.worker.Load(), s.config.Region
	ctx, cancel := context.WithTimeout(ctx, reportTime)
	defer cancel()
	in, err := proto.Marshal(m)
	if err != nil {
		return nil, err
	}
	sent := time.Now()
	out, err := s.exchange(ctx, s.scheme+s.aggregator.at()+quotav1connect.QuotaServiceReportProcedure, in, reportTime, "")
	if err != nil {
		return nil, err
	}
	answer := new(quotav1.ReportResponse)
	if err := proto.Unmarshal(out, answer); err != nil {
		return nil, malformed(err.Error())
	}
	if !wire.Supported(answer.Protocol) {
		return nil, wire.OtherVersion(answer.Protocol)
	}
	if answer.WatchMs == 0 {
		s.watchUntil.Store(nil)
	}
	s.watched(sent, answer.WatchMs)
	return answer, nil
}
