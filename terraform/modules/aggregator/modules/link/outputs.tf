output "id" {
  description = "Id of the peering connection."
  value       = aws_vpc_peering_connection_accepter.this.vpc_peering_connection_id
}
