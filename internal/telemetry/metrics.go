package telemetry

import (
	"net/http"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
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

	HistogramVec = prometheus.HistogramVec
	Observer     = prometheus.Observer
)

// Registry holds the instruments of a program. Declaring the same name twice is a
// mistake in the program and panics.
type Registry struct{ registry *prometheus.Registry }

// NewRegistry makes a registry with what every program tells: its build, its
// process and its runtime.
func NewRegistry(program string) *Registry {
	r := &Registry{registry: prometheus.NewRegistry()}
	r.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	r.Gauges("weir_build_info", "The build that runs; always 1.", "program", "version", "go").
		WithLabelValues(program, version(), runtime.Version()).Set(1)
	return r
}

// version is that of the module, as the go command stamped it.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// Counter declares a counter.
func (r *Registry) Counter(name, help string) Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	r.registry.MustRegister(c)
	return c
}

// Counters declares a counter with labels.
func (r *Registry) Counters(name, help string, labels ...string) *CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	r.registry.MustRegister(c)
	return c
}

// CounterFunc declares a counter that is kept elsewhere.
func (r *Registry) CounterFunc(name, help string, value func() float64) {
	r.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value))
}

// Gauge declares a gauge.
func (r *Registry) Gauge(name, help string) Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	r.registry.MustRegister(g)
	return g
}

// Gauges declares a gauge with labels.
func (r *Registry) Gauges(name, help string, labels ...string) *GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	r.registry.MustRegister(g)
	return g
}

// GaugeFunc declares a gauge that is read when it is asked for.
func (r *Registry) GaugeFunc(name, help string, value func() float64) {
	r.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// Histogram declares a histogram. bounds are the upper bounds of its buckets,
// ascending; a last bucket takes what is above.
func (r *Registry) Histogram(name, help string, bounds []float64) Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: bounds})
	r.registry.MustRegister(h)
	return h
}

// Histograms declares a histogram with labels.
func (r *Registry) Histograms(name, help string, bounds []float64, labels ...string) *HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: bounds}, labels)
	r.registry.MustRegister(h)
	return h
}

// Handler serves the metrics in Prometheus' text format.
func (r *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{})
}

// Doubling returns n bounds for a histogram, each twice the one before.
func Doubling(first float64, n int) []float64 { return prometheus.ExponentialBuckets(first, 2, n) }

// UsualBounds are the bounds in seconds that Prometheus' libraries have by default.
func UsualBounds() []float64 { return prometheus.DefBuckets }
