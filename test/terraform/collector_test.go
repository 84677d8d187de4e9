package terraform

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/weirlimit/weir/test/kit/otlp"
	"github.com/weirlimit/weir/test/kit/proc"
)

// beside is a receiver in place of the collector that runs beside a program on AWS, and what that
// one is configured to take.
type beside struct {
	*otlp.Receiver
	environment []string // of the program
	counters    []string // names of metrics
	all         []string
}

// collector applies the module collector, and receives where its collector would. Programs send
// more often than on AWS: the test does not wait a minute.
func collector(t *testing.T) *beside {
	t.Helper()
	texts, environments := apply(t, "region/modules/collector", map[string]any{
		"service": "weir-eu-weir-regional", "aws_region": "eu-central-1", "log_group": "/weir/weir-eu/weir-regional/metrics"})
	var config struct {
		Processors struct {
			Cumulativetodelta struct{ Include struct{ Metrics []string } }
			Metricstransform  struct{ Transforms []struct{ Include string } }
		}
	}
	if err := json.Unmarshal([]byte(texts["config_json"]), &config); err != nil {
		t.Fatalf("%v in %s", err, texts["config_json"])
	}
	b := &beside{Receiver: otlp.Start(t), counters: config.Processors.Cumulativetodelta.Include.Metrics}
	for _, transform := range config.Processors.Metricstransform.Transforms {
		b.all = append(b.all, transform.Include)
	}
	b.environment = append(environments["environment"], "WEIR_OTLP=http://"+b.Addr, "OTEL_METRIC_EXPORT_INTERVAL=200")
	return b
}

// awaitMetrics waits until a program has sent each metric that the collector takes: a counter
// where it takes differences, else a gauge.
func (b *beside) awaitMetrics(t *testing.T, p *proc.Process, program string) {
	t.Helper()
	if len(b.all) == 0 || len(b.counters) == 0 {
		t.Fatal("the collector takes no metrics")
	}
	p.AwaitUp(func() string {
		for _, name := range b.all {
			m := b.Metric(program, name)
			if m == nil {
				return program + " does not send " + name
			}
			if counts := m.GetSum().GetIsMonotonic(); counts != slices.Contains(b.counters, name) || (!counts && m.GetGauge() == nil) {
				return name + " of " + program + " is not what the collector takes it for"
			}
		}
		return ""
	})
}
