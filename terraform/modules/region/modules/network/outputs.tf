output "network" {
  description = "The network, as the variable network of the module region has it."
  value = {
    vpc_id                  = aws_vpc.this.id
    cidr                    = var.cidr
    public_subnet_ids       = [for s in aws_subnet.public : s.id]
    private_subnet_ids      = [for s in aws_subnet.private : s.id]
    private_route_table_ids = { for zone, t in aws_route_table.private : zone => t.id }
  }
  # A machine fetches its programs as soon as it boots, and a public balancer needs the gateway:
  # whoever uses the network gets one that reaches what is outside.
  depends_on = [
    aws_route.internet, aws_route_table_association.public,
    aws_route.nat, aws_route_table_association.private, aws_vpc_endpoint.s3,
  ]
}
