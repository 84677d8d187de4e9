mock_provider "aws" {
  mock_data "aws_region" {
    defaults = { region = "eu-central-1" }
  }
}

variables {
  name  = "weir-eu"
  cidr  = "10.1.0.0/16"
  zones = ["eu-central-1a", "eu-central-1b", "eu-central-1c"]
}

run "three_zones" {
  assert {
    condition     = length(output.network.public_subnet_ids) == 3 && length(output.network.private_subnet_ids) == 3 && length(aws_nat_gateway.this) == 3
    error_message = "Each zone must have a public subnet, a private one and a gateway."
  }
  assert {
    condition     = length(distinct([for s in concat(values(aws_subnet.public), values(aws_subnet.private)) : s.cidr_block])) == 6
    error_message = "Subnets must not overlap."
  }
  assert {
    condition     = alltrue([for s in concat(values(aws_subnet.public), values(aws_subnet.private)) : s.map_public_ip_on_launch != true])
    error_message = "No machine may get a public address by itself."
  }
  assert {
    condition     = alltrue([for r in aws_route.nat : r.gateway_id == null && r.nat_gateway_id != null])
    error_message = "Private subnets must reach the internet through NAT alone: nobody reaches them from there."
  }
  assert {
    condition     = aws_vpc.this.enable_dns_hostnames && aws_vpc.this.enable_dns_support
    error_message = "Redis and the interfaces of AWS are found by their names."
  }
}

run "two_zones" {
  variables { zones = ["eu-central-1a", "eu-central-1b"] }
  assert {
    condition     = length(output.network.private_subnet_ids) == 2
    error_message = "There must be as many subnets as zones."
  }
}

run "one_zone_twice" {
  command = plan
  variables { zones = ["eu-central-1a", "eu-central-1a"] }
  expect_failures = [var.zones]
}

run "too_few_addresses" {
  command = plan
  variables { cidr = "10.1.0.0/24" }
  expect_failures = [var.cidr]
}

run "no_addresses" {
  command = plan
  variables { cidr = "everything" }
  expect_failures = [var.cidr]
}
