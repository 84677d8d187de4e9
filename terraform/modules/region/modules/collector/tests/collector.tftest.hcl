variables {
  service    = "weir-eu-weir-regional"
  aws_region = "eu-central-1"
  log_group  = "/weir/weir-eu/weir-regional/metrics"

  job                  = "weir-regional"
  region               = "eu"
  prometheus_workspace = ""
}

run "metrics" {
  assert {
    condition     = jsondecode(output.config_json).receivers.otlp.protocols.grpc.endpoint == trimprefix(output.environment.WEIR_OTLP, "http://") && startswith(output.environment.WEIR_OTLP, "http://127.0.0.1:")
    error_message = "The collector must listen where the program sends, on loopback only."
  }
  assert {
    condition = [for d in jsondecode(output.config_json).exporters.awsemf.metric_declarations : d.dimensions] == [[["service"]]] && alltrue([
      for t in jsondecode(output.config_json).processors.metricstransform.transforms :
      length(t.operations[0].label_set) == 0 && t.operations[1].new_label == "service" && t.operations[1].new_value == var.service
    ])
    error_message = "Metrics must have the dimension service alone: rules and keys would each be a metric."
  }
  assert {
    condition = toset([for t in jsondecode(output.config_json).processors.metricstransform.transforms : t.include]) == toset([
    output.metrics.wants, output.metrics.redis_unavailable, output.metrics.rules_ok])
    error_message = "The collector must send the metrics that alarms and autoscaling use, and no others."
  }
  assert {
    condition     = index(jsondecode(output.config_json).service.pipelines.metrics.processors, "cumulativetodelta") < index(jsondecode(output.config_json).service.pipelines.metrics.processors, "metricstransform")
    error_message = "Counters must be differences before they are added: rules that go would make a sum fall."
  }
  assert {
    condition     = tonumber(output.environment.OTEL_METRIC_EXPORT_INTERVAL) == 1000 * output.metrics.interval
    error_message = "A value must be over the time that autoscaling divides by."
  }
}

run "prometheus" {
  variables { prometheus_workspace = "arn:aws:aps:eu-central-1:123456789012:workspace/ws-1a2b" }
  assert {
    condition = alltrue([for name, pipeline in jsondecode(output.config_json).service.pipelines : alltrue(concat(
      [for r in pipeline.receivers : contains(keys(jsondecode(output.config_json).receivers), r)],
    [for e in pipeline.exporters : contains(keys(jsondecode(output.config_json).exporters), e)]))]) && keys(jsondecode(output.config_json).service.pipelines) == ["metrics", "metrics/weir"]
    error_message = "Both pipelines must have their components."
  }
  assert {
    condition     = jsondecode(output.config_json).service.extensions == keys(jsondecode(output.config_json).extensions)
    error_message = "The collector must start what signs its requests."
  }
}
