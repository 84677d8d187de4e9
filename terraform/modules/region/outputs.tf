output "aws_region" {
  description = "Region of AWS."
  value       = data.aws_region.current.region
}

output "balancer" {
  description = "Load balancer of the PoPs: ARN, DNS name, port, and the zone of its DNS name."
  value       = module.edge.balancer
}

output "network" {
  description = "The network, new or given."
  value       = local.network
}

output "redis_address" {
  description = "Configuration endpoint of Redis, as host:port."
  value       = module.redis.address
}

output "cell" {
  description = "What the module aggregator needs to run aggregators in this region."
  value = {
    name                    = var.name
    aws_region              = var.aws_region
    network                 = local.network
    kms_key_arn             = aws_kms_key.this.arn
    agent_security_group_id = module.consul.agent_security_group_id
    consul_tag              = local.name
    architecture            = var.architecture
  }
}
