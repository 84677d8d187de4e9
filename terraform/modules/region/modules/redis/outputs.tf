output "address" {
  description = "Configuration endpoint, as host:port."
  value       = "${aws_elasticache_replication_group.this.configuration_endpoint_address}:6379"

  precondition {
    condition     = try(tonumber(data.aws_ssm_parameter.shards.insecure_value), 0) <= var.shards || var.fewer_shards
    error_message = "Redis ${var.name} has ${data.aws_ssm_parameter.shards.insecure_value} shards, and shards is ${var.shards}. The keys would move to ${var.shards} shards: check that memory and CPU of the nodes have room for them, then apply once with fewer_shards = true. Nothing was changed."
  }
}

output "security_group_id" {
  description = "Security group of the nodes."
  value       = aws_security_group.this.id
}
