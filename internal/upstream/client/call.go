package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/weirlimit/weir/api/quota/v1/quotav1connect"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/wire"
)

// call makes one call. It returns a grant for each want; nil if it failed, and then it
// is unknown what was applied. ctx has the spans that wait for it.
func (s *Store) call(ctx context.Context, wants []wire.Want) []wire.Grant {
	ctx, cancel := context.WithTimeout(ctx, s.config.Timeout)
	defer cancel()
	ctx, span := s.config.Tracer.Call(ctx, quotav1connect.QuotaServiceAcquireProcedure[1:])
	defer span.End()
	seq := s.seq.Add(1)
	begin := time.Now()
	to := s.aggregator.address()
	q := s.request(seq, wants, traceParents(ctx))
	answer, err := s.post(ctx, to, q)
	s.metrics.wants.Observe(float64(len(wants)))
	s.metrics.calls.WithLabelValues(result(err)).Inc()
	if errors.Is(err, errDropped) {
		telemetry.Fail(span, err)
		s.rename(ctx, to, q.Worker)
		return nil
	}
	if err != nil {
		telemetry.Fail(span, err)
		s.noteRejected(q.Reserve, err)
		if s.aggregator.failed(to, seq, errors.Is(err, context.DeadlineExceeded)) {
			s.config.Log.WarnContext(ctx, "aggregator does not answer; on_failure decides rules with scope: global", "address", to, "error", err,
				"runbook", "docs/runbooks/WeirAggregatorUnavailable.md")
		}
		return nil
	}
	s.metrics.seconds.Observe(time.Since(begin).Seconds())
	if s.aggregator.answered(seq) {
		s.config.Log.InfoContext(ctx, "aggregator answers", "address", to)
	}
	s.learn(seq, begin, q, answer)
	return answer.Grants
}

// traceParents are those of the spans that wait for a call, its own first.
func traceParents(ctx context.Context) (headers []string) {
	for _, s := range telemetry.Waiting(ctx) {
		headers = append(headers, telemetry.TraceParent(s))
	}
	return headers[:min(len(headers), wire.MaxTraceParents)]
}

// request is the message of a call.
func (s *Store) request(seq uint64, wants []wire.Want, traces []string) *wire.Request {
	version, revision := s.config.Rules()
	return &wire.Request{
		Protocol: wire.ProtocolMin, ProtocolMax: wire.ProtocolMax,
		Holder: s.holder[:], Seq: seq, Ack: min(s.ack.Load(), seq-1),
		RulesVersion: version, RulesRevision: revision, Region: s.config.Region, Reserve: s.statement(), Wants: wants, TraceParent: traces,
		Worker: s.worker.Load(),
	}
}

// statement is what a call states of the region's reserve; nil: nothing.
func (s *Store) statement() *reserve.Statement {
	if s.config.Reserve == nil {
		return nil
	}
	st, ok := s.config.Reserve.Statement()
	if !ok {
		return nil
	}
	return &st
}

// learn takes what an answer has beside its grants. The call was sent at that time.
func (s *Store) learn(seq uint64, sent time.Time, q *wire.Request, m *wire.Response) {
	if s.config.Reserve != nil && q.Reserve != nil && m.Reserve != nil {
		m.Reserve.ID = q.Reserve.ID
		s.config.Reserve.Replied(sent, *m.Reserve)
	}
	for i := range m.Grants {
		if m.Grants[i].Status != lease.UnknownRule {
			if rule := q.Wants[i].Rule; s.RuleUnknown(rule) {
				s.unknown.Delete(rule)
			}
			continue
		}
		s.metrics.unknown.Inc()
		s.unknown.Store(q.Wants[i].Rule, nil)
		m.Grants[i].Status = lease.Unavailable
	}
	s.watched(sent, m.WatchMs)
	for last := s.ack.Load(); seq > last && !s.ack.CompareAndSwap(last, seq); last = s.ack.Load() {
	}
}

// noteRejected takes that a call was rejected for what it states of the region's reserve.
func (s *Store) noteRejected(st *reserve.Statement, err error) {
	var rejected *rejectedError
	if st == nil || !errors.As(err, &rejected) {
		return
	}
	switch {
	case rejected.Code == "invalid_argument" && strings.HasPrefix(rejected.Message, "reserve."):
		s.config.Reserve.Rejected(st.ID, rejected.Message)
	case rejected.Code == "failed_precondition" && s.rejected.Now():
		s.config.Log.Error("aggregator rejects the calls of this region", "region", s.config.Region, "error", rejected.Message)
	}
}

// rejectedError is an answer that is no answer to the call.
type rejectedError struct {
	Status  string `json:"-"`
	Code    string `json:"code"`
	Message string `json:"message"`
	text    string
}

func (e *rejectedError) Error() string { return "it answers " + e.Status + ": " + e.text }

// rejection reads such an answer. A text that is none of the protocol has neither code nor message.
func rejection(status string, text []byte) error {
	e := &rejectedError{Status: status, text: string(text[:min(len(text), 300)])}
	_ = json.Unmarshal(text, e)
	return e
}

// errDropped is an answer to a call of which nothing was applied, because of its number.
var errDropped = errors.New("it already had a call with this or a much larger number from this process")

// rename takes another name for the calls, as a process that has started again does: who calls under the
// old one must not keep this one from being answered.
func (s *Store) rename(ctx context.Context, to string, was uint64) {
	var name [8]byte
	_, _ = rand.Read(name[:]) // never fails, and is not part of a snapshot
	if s.worker.CompareAndSwap(was, binary.NativeEndian.Uint64(name[:])|1) && s.renamed.Now() {
		s.config.Log.WarnContext(ctx, "aggregator dropped a call as repeated; the next calls use another id",
			"address", to, "holder", fmt.Sprintf("%x", s.holder), "runbook", "docs/runbooks/WeirCallerWrong.md")
	}
}

// malformed is an answer that cannot be one to the call.
type malformed string

func (m malformed) Error() string {
	return "its answer cannot be read: " + string(m) + "; make sure that the address is that of weir-global"
}

// post sends a message and reads the answer.
func (s *Store) post(ctx context.Context, to string, q *wire.Request) (*wire.Response, error) {
	parent := ""
	if len(q.TraceParent) > 0 {
		parent = q.TraceParent[0]
	}
	// What the aggregator cannot decide in half of the time would arrive too late.
	text, err := s.exchange(ctx, s.scheme+to+quotav1connect.QuotaServiceAcquireProcedure, q.Append(nil), s.config.Timeout/2, parent)
	if err != nil {
		return nil, err
	}
	var m wire.Response
	if err := m.DecodeAnswer(text, q.Seq, len(q.Wants)); err != nil {
		return nil, malformed(err.Error())
	}
	if m.Dropped {
		return nil, errDropped
	}
	return &m, nil
}

// exchange sends an encoded message, which is to be answered within this time, and returns the answer.
func (s *Store) exchange(ctx context.Context, url string, body []byte, within time.Duration, parent string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/proto")
	r.Header.Set("Connect-Timeout-Ms", strconv.FormatInt(within.Milliseconds(), 10))
	if parent != "" {
		r.Header.Set("Traceparent", parent)
	}
	answer, err := s.aggregator.transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, wire.MaxMessage+1))
	if err == nil && answer.StatusCode != http.StatusOK {
		err = rejection(answer.Status, text)
	}
	return text, err
}

// result names the outcome of a call for metrics.
func result(err error) string {
	var m malformed
	switch {
	case err == nil:
		return "answered"
	case errors.Is(err, errDropped):
		return "dropped"
	case errors.Is(err, context.DeadlineExceeded):
		return "timed_out"
	case errors.As(err, &m):
		return "malformed"
	}
	return "failed"
}
