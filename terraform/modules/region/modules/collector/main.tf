# What a task reports of itself to CloudWatch. Keys are in no metric, and rules not here: each label would
# be a metric that is paid for.
locals {
  port     = 4317
  interval = 60 # seconds; a value of a counter is what it grew by in that time

  # Counters are those that Prometheus would read, by the name under which alarms and autoscaling see them.
  counters = { wants = "weir_wants_total", redis_unavailable = "weir_redis_unavailable_total" }
  gauges   = { rules_ok = "weir_rules_config_ok" }
  names    = values(merge(local.counters, local.gauges))

  namespace = "Weir"
  dimension = "service"

  config = {
    receivers  = merge({ otlp = { protocols = { grpc = { endpoint = "127.0.0.1:${local.port}" } } } }, module.prometheus.config.receivers)
    extensions = module.prometheus.config.extensions
    processors = {
      memory_limiter = { check_interval = "1s", limit_mib = 96, spike_limit_mib = 24 }
      filter         = { metrics = { metric = ["not IsMatch(name, \"^(${join("|", local.names)})$\")"] } }

      # Before the sum: a rule that is gone takes its counter along, and a sum of counters would fall.
      # A first value is not over an interval, or is all that there ever was where a collector began anew.
      cumulativetodelta = { include = { match_type = "strict", metrics = values(local.counters) }, initial_value = "drop" }
      metricstransform = { transforms = [for name in local.names : {
        include = name, match_type = "strict", action = "update"
        operations = [
          { action = "aggregate_labels", label_set = [], aggregation_type = contains(values(local.counters), name) ? "sum" : "min" },
          { action = "add_label", new_label = local.dimension, new_value = var.service },
        ]
      }] }
    }
    exporters = merge({ awsemf = {
      region                  = var.aws_region
      log_group_name          = var.log_group
      namespace               = local.namespace
      dimension_rollup_option = "NoDimensionRollup"
      metric_declarations     = [{ dimensions = [[local.dimension]], metric_name_selectors = [for name in local.names : "^${name}$"] }]
    } }, module.prometheus.config.exporters)
    service = {
      extensions = module.prometheus.config.service.extensions
      telemetry  = { metrics = { level = "none" } }
      pipelines = merge({ metrics = {
        receivers  = ["otlp"]
        processors = ["memory_limiter", "filter", "cumulativetodelta", "metricstransform"]
        exporters  = ["awsemf"]
      } }, module.prometheus.config.service.pipelines)
    }
  }
}

# All metrics of the program, for dashboards and alerts.
module "prometheus" {
  source = "../../../prometheus"

  workspace = var.prometheus_workspace
  job       = var.job
  target    = "127.0.0.1:8090"
  region    = var.region
  instance  = "$${env:HOSTNAME}" # of the container: one for each task
}
