output "envoy_yaml" {
  description = "Bootstrap of the PoP's Envoy; null without pop."
  value       = one([for p in var.pop[*] : replace(yamlencode(local.envoy), local.instance, p.name)])

  precondition {
    condition     = var.pop == null || var.consul != null || length(try(var.pop.replicas, [])) > 0
    error_message = "Without consul the PoP needs the addresses of its region: set pop.replicas."
  }
}

output "sds_files" {
  description = "Files through which Envoy reads its certificates, by path: put them beside its bootstrap."
  value       = local.sds_files
}

output "consul_client_json" {
  description = "Configuration of the Consul agent beside a PoP or a replica; null without consul."
  value       = one([for c in var.consul[*] : jsonencode(local.consul_client)])
}

output "consul_server_json" {
  description = "Configuration of a Consul server; null without consul."
  value       = one([for c in var.consul[*] : jsonencode(local.consul_server)])
}

output "regional_environment" {
  description = "Environment of weir-regional."
  value       = local.regional_environment

  precondition {
    condition     = var.consul != null || !startswith(var.service.rules, "consul:")
    error_message = "Without consul there are no rules in Consul: set service.rules to the path of a file."
  }
}

output "global_environment" {
  description = "Environment of weir-global."
  value       = local.service_common
}

output "pop_user_data" {
  description = "cloud-init of a PoP's machine; null without pop. It names secrets and has none."
  value       = one([for c in values(local.pop_cloud_init) : "#cloud-config\n${yamlencode(c)}"])
}

output "consul_user_data" {
  description = "cloud-init of a Consul server; null without consul. It names secrets and has none."
  value       = one([for c in values(local.consul_cloud_init) : "#cloud-config\n${yamlencode(c)}"])
}
