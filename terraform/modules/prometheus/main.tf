# Component names have a suffix because the agent of CloudWatch adds this configuration to its own.
locals {
  workspaces = compact([var.workspace])

  receivers = { for w in local.workspaces : "prometheus/weir" => { config = { scrape_configs = [{
    job_name        = var.job
    scrape_interval = "15s" # as in observability/prometheus.yml: alerts have rates over a minute
    metrics_path    = var.path
    static_configs  = [{ targets = [var.target], labels = merge({ instance = var.instance }, { for r in compact([var.region]) : "region" => r }) }]
  }] } } }

  extensions = { for w in local.workspaces : "sigv4auth/weir" => { region = split(":", w)[3], service = "aps" } }

  exporters = { for w in local.workspaces : "prometheusremotewrite/weir" => {
    endpoint            = "https://aps-workspaces.${split(":", w)[3]}.amazonaws.com/workspaces/${split("/", w)[1]}/api/v1/remote_write"
    auth                = { authenticator = "sigv4auth/weir" }
    add_metric_suffixes = false # counters of Envoy do not end in _total
  } }
}
