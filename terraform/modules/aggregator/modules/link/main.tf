resource "aws_vpc_peering_connection" "this" {
  provider = aws.requester

  vpc_id      = var.requester.vpc_id
  peer_vpc_id = var.accepter.vpc_id
  peer_region = var.accepter.aws_region
  auto_accept = false
  tags        = merge(var.tags, { Name = "weir-${var.name}" })
}

resource "aws_vpc_peering_connection_accepter" "this" {
  provider = aws.accepter

  vpc_peering_connection_id = aws_vpc_peering_connection.this.id
  auto_accept               = true
  tags                      = merge(var.tags, { Name = "weir-${var.name}" })
}

# By the zone of a table: its id is not known before it is there, and its place in a list changes.
resource "aws_route" "there" {
  provider = aws.requester
  for_each = var.requester.private_route_table_ids

  route_table_id            = each.value
  destination_cidr_block    = var.accepter.cidr
  vpc_peering_connection_id = aws_vpc_peering_connection_accepter.this.vpc_peering_connection_id
}

resource "aws_route" "back" {
  provider = aws.accepter
  for_each = var.accepter.private_route_table_ids

  route_table_id            = each.value
  destination_cidr_block    = var.requester.cidr
  vpc_peering_connection_id = aws_vpc_peering_connection_accepter.this.vpc_peering_connection_id
}
