// Package otlp is a receiver of OpenTelemetry's protocol over gRPC: it keeps the spans and
// metrics that programs send, for tests to look at.
package otlp

import (
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Span is a span as it was received.
type Span struct {
	Service string // service.name of the sender
	Name    string
	Kind    tracepb.Span_SpanKind
	Trace   string // ids in hexadecimal
	ID      string
	Parent  string // empty: it has none
	Links   []Link
	Tags    map[string]string // attributes, as text
}

// Link is the span that another one is linked to.
type Link struct{ Trace, ID string }

func (s Span) String() string {
	return fmt.Sprintf("%s %q %s, trace %s, id %s, parent %s, links %v, tags %v", s.Service, s.Name, s.Kind, s.Trace, s.ID, s.Parent, s.Links, s.Tags)
}

// Receiver is a receiver. It is safe for concurrent use.
type Receiver struct {
	collectortrace.UnimplementedTraceServiceServer
	Addr string // host:port

	mu      sync.Mutex
	spans   []Span
	metrics map[string]*metricspb.Metric // the last of each, by service and name
}

// Start starts a receiver, which runs until the test ends.
func Start(t proc.T) *Receiver {
	t.Helper()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	fatal.If(t, err)
	r := &Receiver{Addr: port.Addr().String(), metrics: map[string]*metricspb.Metric{}}
	server := grpc.NewServer()
	collectortrace.RegisterTraceServiceServer(server, r)
	collectormetrics.RegisterMetricsServiceServer(server, metricsService{receiver: r})
	go func() { _ = server.Serve(port) }() // until Stop
	t.Cleanup(server.Stop)
	return r
}

// Spans returns the spans of a trace that were received, in hexadecimal; "" is all.
func (r *Receiver) Spans(trace string) []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.spans), func(s Span) bool { return trace != "" && s.Trace != trace })
}

// Metric returns what a service sent last of a metric; nil: nothing yet.
func (r *Receiver) Metric(service, name string) *metricspb.Metric {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.metrics[service+" "+name]
}

// Export receives spans.
func (r *Receiver) Export(_ context.Context, q *collectortrace.ExportTraceServiceRequest) (*collectortrace.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rs := range q.GetResourceSpans() {
		for _, scope := range rs.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				r.spans = append(r.spans, spanOf(serviceOf(rs.GetResource()), s))
			}
		}
	}
	return new(collectortrace.ExportTraceServiceResponse), nil
}

func spanOf(service string, s *tracepb.Span) Span {
	out := Span{
		Service: service, Name: s.GetName(), Kind: s.GetKind(), Tags: map[string]string{},
		Trace: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId()),
	}
	for _, l := range s.GetLinks() {
		out.Links = append(out.Links, Link{hex.EncodeToString(l.GetTraceId()), hex.EncodeToString(l.GetSpanId())})
	}
	for _, a := range s.GetAttributes() {
		out.Tags[a.GetKey()] = text(a.GetValue())
	}
	return out
}

// text is a value of an attribute; a list has commas between.
func text(v *commonpb.AnyValue) string {
	switch v := v.GetValue().(type) {
	case *commonpb.AnyValue_StringValue:
		return v.StringValue
	case *commonpb.AnyValue_BoolValue:
		return strconv.FormatBool(v.BoolValue)
	case *commonpb.AnyValue_IntValue:
		return strconv.FormatInt(v.IntValue, 10)
	case *commonpb.AnyValue_ArrayValue:
		var all []string
		for _, one := range v.ArrayValue.GetValues() {
			all = append(all, text(one))
		}
		return strings.Join(all, ",")
	}
	return ""
}

func serviceOf(r *resourcepb.Resource) string {
	for _, a := range r.GetAttributes() {
		if a.GetKey() == "service.name" {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

// metricsService receives metrics.
type metricsService struct {
	collectormetrics.UnimplementedMetricsServiceServer
	receiver *Receiver
}

func (m metricsService) Export(_ context.Context, q *collectormetrics.ExportMetricsServiceRequest) (*collectormetrics.ExportMetricsServiceResponse, error) {
	m.receiver.mu.Lock()
	defer m.receiver.mu.Unlock()
	for _, rm := range q.GetResourceMetrics() {
		for _, scope := range rm.GetScopeMetrics() {
			for _, one := range scope.GetMetrics() {
				m.receiver.metrics[serviceOf(rm.GetResource())+" "+one.GetName()] = one
			}
		}
	}
	return new(collectormetrics.ExportMetricsServiceResponse), nil
}
