output "address" {
  description = "Configuration endpoint, as host:port."
  value       = "${aws_elasticache_replication_group.this.configuration_endpoint_address}:6379"
}

output "security_group_id" {
  description = "Security group of the nodes."
  value       = aws_security_group.this.id
}
