output "security_group_id" {
  description = "Security group of the PoPs."
  value       = aws_security_group.pop.id
}

output "balancer" {
  description = "Load balancer: ARN, DNS name, port, and the zone of its DNS name."
  value       = { arn = aws_lb.this.arn, dns_name = aws_lb.this.dns_name, port = var.pops.public_port, zone_id = aws_lb.this.zone_id }
}
