package terraform

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/weirlimit/weir/test/kit/fatal"
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
		"service": "weir-eu-weir-regional", "aws_region": "eu-central-1", "log_group": "/weir/weir-eu/weir-regional/metrics",
		"job": "weir-regional", "region": "eu", "prometheus_workspace": ""})
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

// scrapes are the jobs of Prometheus.
type scrapes struct {
	Jobs []struct {
		Job    string `yaml:"job_name"`
		Path   string `yaml:"metrics_path"`
		Static []struct {
			Targets []string
			Labels  map[string]string
		} `yaml:"static_configs"`
	} `yaml:"scrape_configs"`
}

// Collectors on AWS scrape the jobs of prometheus.yml, on which dashboards and alerts rely: the same paths, with the labels
// region and instance.
func TestScrapes(t *testing.T) {
	const workspace = "arn:aws:aps:eu-central-1:123456789012:workspace/ws-1"
	texts, _ := bootstrap(t, map[string]any{"region": "eu", "pop": map[string]any{"upstreams": []string{"localhost:9"}},
		"machine": map[string]any{"logs": "/weir/weir-eu", "prometheus": workspace}})
	var machine cloudInit
	fatal.If(t, yaml.Unmarshal([]byte(texts["pop_user_data"]), &machine))
	var configs []string
	for _, file := range machine.Files {
		if filepath.Base(file.Path) == "collector.yaml" {
			configs = append(configs, file.Content)
		}
	}
	for job, region := range map[string]string{"weir-regional": "eu", "weir-global": ""} {
		texts, _ := apply(t, "region/modules/collector", map[string]any{"service": "weir-eu-" + job, "aws_region": "eu-central-1",
			"log_group": "/weir", "job": job, "region": region, "prometheus_workspace": workspace})
		configs = append(configs, texts["config_json"])
	}
	var shipped scrapes
	fatal.If(t, yaml.Unmarshal(fatal.Get(os.ReadFile(filepath.Join(proc.Root(t), "observability/prometheus.yml")))(t), &shipped))
	paths := map[string]string{}
	for _, job := range shipped.Jobs {
		paths[job.Job] = job.Path
	}
	for _, text := range configs {
		var config struct {
			Receivers map[string]struct{ Config scrapes }
		}
		fatal.If(t, yaml.Unmarshal([]byte(text), &config))
		own := config.Receivers["prometheus/weir"].Config
		if len(own.Jobs) != 1 {
			t.Fatalf("%d jobs in %s", len(own.Jobs), text)
		}
		job := own.Jobs[0]
		path, known := paths[job.Job]
		labels := job.Static[0].Labels
		if !known || job.Path != path && (path != "" || job.Path != "/metrics") || labels["instance"] == "" || (labels["region"] == "eu") == (job.Job == "weir-global") {
			t.Errorf("%+v, and prometheus.yml has the path %q", job, path)
		}
		file := proc.WriteFile(t, filepath.Join(t.TempDir(), "prometheus.yml"), string(fatal.Get(yaml.Marshal(own))(t)))
		proc.Run(t, exec.CommandContext(t.Context(), "promtool", "check", "config", file))
		delete(paths, job.Job)
	}
	if len(paths) > 0 {
		t.Errorf("jobs that are not scraped: %v", paths)
	}
}
