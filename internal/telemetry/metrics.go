package telemetry

import (
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weirlimit/weir/internal/version"
)

// The instruments. All of them are safe for concurrent use. A vector is resolved
// to its instruments once, when the configuration is read, not per request.
type (
	Counter    = prometheus.Counter
	CounterVec = prometheus.CounterVec
	Gauge      = prometheus.Gauge
	GaugeVec   = prometheus.GaugeVec
	Histogram  = prometheus.Histogram
	Labels     = prometheus.Labels
	Observer   = prometheus.Observer
)

// Registry holds the instruments of a program. Declaring the same name twice is a
// mistake in the program and panics.
type Registry struct{ registry *prometheus.Registry }

// NewRegistry makes a registry with metrics of every program: of its build, its
// process and its runtime.
func NewRegistry(program string) *Registry {
	r := &Registry{registry: prometheus.NewRegistry()}
	r.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	r.Gauges("weir_build_info", "The build that runs; always 1.", "program", "version", "go").
		WithLabelValues(program, version.Version, runtime.Version()).Set(1)
	return r
}

func register[C prometheus.Collector](r *Registry, c C) C {
	r.registry.MustRegister(c)
	return c
}

// Counter declares a counter.
func (r *Registry) Counter(name, help string) Counter {
	return register(r, prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help}))
}

// Counters declares a counter with labels.
func (r *Registry) Counters(name, help string, labels ...string) *CounterVec {
	return register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
}

// CounterFunc declares a counter that is kept elsewhere.
func (r *Registry) CounterFunc(name, help string, value func() float64) {
	register(r, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value))
}

// Gauge declares a gauge.
func (r *Registry) Gauge(name, help string) Gauge {
	return register(r, prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help}))
}

// Gauges declares a gauge with labels.
func (r *Registry) Gauges(name, help string, labels ...string) *GaugeVec {
	return register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels))
}

// GaugeFunc declares a gauge that is read when it is asked for.
func (r *Registry) GaugeFunc(name, help string, value func() float64) {
	register(r, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// GaugeFuncOf is GaugeFunc for one value of each label. It is declared once for all values.
func (r *Registry) GaugeFuncOf(name, help string, of Labels, value func() float64) {
	register(r, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: of}, value))
}

// Histogram declares a histogram. bounds, of the classic one, are the upper bounds of its buckets,
// ascending; a last bucket takes what is above.
func (r *Registry) Histogram(name, help string, bounds []float64) Histogram {
	return register(r, prometheus.NewHistogram(histogram(name, help, bounds)))
}

// Histograms declares a histogram with labels.
func (r *Registry) Histograms(name, help string, bounds []float64, labels ...string) *prometheus.HistogramVec {
	return register(r, prometheus.NewHistogramVec(histogram(name, help, bounds), labels))
}

// histogram is both classic, with the bounds, and native: Prometheus takes the native one, in
// buckets of a tenth, where it is configured to scrape those, and OTLP always.
func histogram(name, help string, bounds []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: bounds,
		NativeHistogramBucketFactor:     1.1,
		NativeHistogramMaxBucketNumber:  160,
		NativeHistogramMinResetDuration: time.Hour,
	}
}

// maxScrapes bounds the answers in flight of all callers together: each takes about a kilobyte for each series.
const maxScrapes = 8

// Handler serves the metrics in Prometheus' text format, or as protobuf to those who ask for
// native histograms. Beyond maxScrapes calls at a time it answers 503.
func (r *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes})
}

// Doubling returns n bounds for a histogram, each twice the one before.
func Doubling(first float64, n int) []float64 { return prometheus.ExponentialBuckets(first, 2, n) }

// UsualBounds are the bounds in seconds that Prometheus' libraries have by default.
func UsualBounds() []float64 { return prometheus.DefBuckets }
