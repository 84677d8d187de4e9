output "config" {
  description = "Receivers, extensions, exporters and service of a collector; all empty without a workspace."
  value = {
    receivers  = local.receivers
    extensions = local.extensions
    exporters  = local.exporters
    service = {
      extensions = keys(local.extensions)
      pipelines  = { for w in local.workspaces : "metrics/weir" => { receivers = keys(local.receivers), exporters = keys(local.exporters) } }
    }
  }
}
