// Package otlp is a receiver of OpenTelemetry's protocol over gRPC: it keeps the spans and
// metrics that programs send, for tests to look at.
package otlp

import (
	"context"
	"encoding/hex"
	"net"
	"slices"
	"sync"

	collectormetrics "go.opentelemetry.io/proto/otlp/collector/metrics/v1"
	collectortrace "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/grpc"

	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Span is a span as it was received.
type Span struct {
	Service string // service.name of the sender
	Name    string
	Trace   string // ids in hexadecimal
	ID      string
	Parent  string   // empty: it has none
	Links   []string // ids of other spans
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
	port := fatal.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	r := &Receiver{Addr: port.Addr().String(), metrics: map[string]*metricspb.Metric{}}
	server := grpc.NewServer()
	collectortrace.RegisterTraceServiceServer(server, r)
	collectormetrics.RegisterMetricsServiceServer(server, metricsService{receiver: r})
	go func() { _ = server.Serve(port) }() // until Stop
	t.Cleanup(server.Stop)
	return r
}

// Spans returns the spans of a trace, in hexadecimal, that were received; of all traces if it is empty.
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
				span := Span{Service: serviceOf(rs.GetResource()), Name: s.GetName(), Trace: hex.EncodeToString(s.GetTraceId()),
					ID: hex.EncodeToString(s.GetSpanId()), Parent: hex.EncodeToString(s.GetParentSpanId())}
				for _, link := range s.GetLinks() {
					span.Links = append(span.Links, hex.EncodeToString(link.GetSpanId()))
				}
				r.spans = append(r.spans, span)
			}
		}
	}
	return new(collectortrace.ExportTraceServiceResponse), nil
}

func serviceOf(r *resourcepb.Resource) string {
	for _, a := range r.GetAttributes() {
		if a.GetKey() == "service.name" {
			return a.GetValue().GetStringValue()
		}
	}
	return ""
}

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
