output "config_json" {
  description = "Configuration of the collector, as AOT_CONFIG_CONTENT of AWS's distribution takes it."
  value       = jsonencode(local.config)
}

output "environment" {
  description = "What the program beside the collector has in its environment."
  value = {
    WEIR_OTLP                   = "http://127.0.0.1:${local.port}"
    OTEL_TRACES_EXPORTER        = "none" # nothing takes them
    OTEL_METRIC_EXPORT_INTERVAL = tostring(1000 * local.interval)
  }
}

output "metrics" {
  description = "Where CloudWatch has the metrics: namespace, dimensions, names, and over how many seconds a value of a counter is."
  value = merge(local.counters, local.gauges, {
    namespace  = local.namespace
    dimensions = { (local.dimension) = var.service }
    interval   = local.interval
  })
}
