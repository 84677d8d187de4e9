package main

// #include "abi.h"
import "C"

import (
	"slices"
	"strings"

	"github.com/weirlimit/weir/wasmfilter/filter"
)

// metric is one of Envoy's with the values of its labels.
type metric struct {
	kind   C.int
	id     C.size_t
	values []byte
	count  C.size_t
}

// defineMetrics defines all metrics that the filter may count: Envoy takes definitions only while it loads a configuration.
func (c *config) defineMetrics() {
	c.defined = map[string]C.size_t{}
	for kind, patterns := range [][]string{C.counter: filter.Counters, C.gauge: filter.Gauges, C.histogram: filter.Histograms} {
		for _, pattern := range patterns {
			name, labels := splitName(pattern, 1)
			c.defined[pattern] = C.weir_define(c.envoy, C.int(kind), chars(name), C.size_t(len(name)), bytesPtr(texts(labels)), C.size_t(len(labels)))
		}
	}
}

// splitName returns the first two parts of a name, and of the others each one that step leads to.
func splitName(whole string, step int) (name string, labels []string) {
	parts := strings.Split(whole, ".")
	for i := 2; i < len(parts); i += step {
		labels = append(labels, parts[i])
	}
	return strings.Join(parts[:2], "."), labels
}

// texts have a zero byte behind each.
func texts(all []string) (b []byte) {
	for _, s := range all {
		b = append(append(b, s...), 0)
	}
	return b
}

// metricOf returns the number of a metric under its whole name, such as weir.calls.reason.answered. Each worker has numbers of its own.
func (w *worker) metricOf(kind C.int, whole string) uint32 {
	if n, ok := w.numbers[whole]; ok {
		return n
	}
	name, labels := splitName(whole, 2)
	m := metric{kind: kind, id: w.config.defined[strings.Join(slices.Insert(labels, 0, name), ".")], count: C.size_t(len(labels))}
	if m.id == 0 {
		logLine(filter.LogError, "weir: Envoy has no metric "+whole)
	}
	parts := strings.Split(whole, ".")
	for i := 3; i < len(parts); i += 2 {
		m.values = append(append(m.values, parts[i]...), 0)
	}
	w.metrics = append(w.metrics, m)
	w.numbers[whole] = uint32(len(w.metrics) - 1)
	return w.numbers[whole]
}

func (w *worker) Counter(name string) uint32   { return w.metricOf(C.counter, name) }
func (w *worker) Gauge(name string) uint32     { return w.metricOf(C.gauge, name) }
func (w *worker) Histogram(name string) uint32 { return w.metricOf(C.histogram, name) }

func (w *worker) Add(number uint32, n int64) { w.Record(number, uint64(n)) }

func (w *worker) Record(number uint32, v uint64) {
	if m := &w.metrics[number]; m.id != 0 {
		C.weir_record(w.config.envoy, m.kind, m.id, bytesPtr(m.values), m.count, C.uint64_t(v))
	}
}
