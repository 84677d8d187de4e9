mock_provider "aws" {
  alias = "requester"

  mock_resource "aws_vpc_peering_connection" {
    defaults = { id = "pcx-1" }
  }
}

mock_provider "aws" {
  alias = "accepter"
}

variables {
  name      = "eu-us"
  requester = { vpc_id = "vpc-eu", cidr = "10.1.0.0/16", private_route_table_ids = { a = "rtb-eu-1", b = "rtb-eu-2" } }
  accepter  = { vpc_id = "vpc-us", cidr = "10.2.0.0/16", private_route_table_ids = { a = "rtb-us-1" }, aws_region = "us-east-1" }
}

run "both_ways" {
  assert {
    condition     = aws_vpc_peering_connection.this.vpc_id == "vpc-eu" && aws_vpc_peering_connection.this.peer_vpc_id == "vpc-us" && aws_vpc_peering_connection.this.peer_region == "us-east-1"
    error_message = "The link must connect the two networks."
  }
  assert {
    condition     = { for r in aws_route.there : r.route_table_id => r.destination_cidr_block } == { rtb-eu-1 = "10.2.0.0/16", rtb-eu-2 = "10.2.0.0/16" }
    error_message = "Each table of one side must lead to the addresses of the other one, and to nothing else."
  }
  assert {
    condition     = { for r in aws_route.back : r.route_table_id => r.destination_cidr_block } == { rtb-us-1 = "10.1.0.0/16" }
    error_message = "Answers must find their way back."
  }
  assert {
    condition     = aws_vpc_peering_connection_accepter.this.auto_accept
    error_message = "A connection that nobody accepts passes nothing."
  }
}

run "addresses_within_the_others" {
  command = plan
  variables {
    accepter = { vpc_id = "vpc-us", cidr = "10.1.128.0/20", private_route_table_ids = { a = "rtb-us-1" }, aws_region = "us-east-1" }
  }
  expect_failures = [var.accepter]
}

run "the_same_addresses_twice" {
  command = plan
  variables {
    accepter = { vpc_id = "vpc-us", cidr = "10.1.0.0/16", private_route_table_ids = { a = "rtb-us-1" }, aws_region = "us-east-1" }
  }
  expect_failures = [var.accepter]
}
