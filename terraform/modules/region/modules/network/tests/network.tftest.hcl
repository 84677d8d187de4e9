mock_provider "aws" {
  mock_data "aws_region" {
    defaults = { region = "eu-central-1" }
  }
  mock_data "aws_availability_zones" {
    defaults = { names = ["eu-central-1c", "eu-central-1a", "eu-central-1b", "eu-central-1d"] }
  }
}

variables {
  name = "weir-eu"
  cidr = "10.1.0.0/16"
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

# Each zone has the addresses of its letter, whatever comes before it in a list.
run "more_zones" {
  variables { zones = 4 }
  assert {
    condition = { for s in aws_subnet.private : s.availability_zone => s.cidr_block } == {
    eu-central-1a = "10.1.128.0/20", eu-central-1b = "10.1.144.0/20", eu-central-1c = "10.1.160.0/20", eu-central-1d = "10.1.176.0/20" }
    error_message = "One zone more must leave the subnets of the others as they are."
  }
}

# The zone d is not used: whether it is there, or one more, moves nothing. Nor does one that fails.
run "a_later_zone_less" {
  override_data {
    target = data.aws_availability_zones.available
    values = { names = ["eu-central-1c", "eu-central-1b", "eu-central-1a"] }
  }
  assert {
    condition = { for s in aws_subnet.private : s.availability_zone => s.cidr_block } == {
    eu-central-1a = "10.1.128.0/20", eu-central-1b = "10.1.144.0/20", eu-central-1c = "10.1.160.0/20" }
    error_message = "A zone that was not used, and is gone, must move no subnet."
  }
  assert {
    condition     = data.aws_availability_zones.available.state == null
    error_message = "A zone that fails must stay among the zones, else an apply moves its subnets."
  }
}

run "a_later_zone_more" {
  override_data {
    target = data.aws_availability_zones.available
    values = { names = ["eu-central-1e", "eu-central-1c", "eu-central-1d", "eu-central-1b", "eu-central-1a"] }
  }
  assert {
    condition = { for s in aws_subnet.private : s.availability_zone => s.cidr_block } == {
    eu-central-1a = "10.1.128.0/20", eu-central-1b = "10.1.144.0/20", eu-central-1c = "10.1.160.0/20" }
    error_message = "A zone more with a later letter must move no subnet."
  }
}

run "zones_by_name" {
  variables { zone_names = ["eu-central-1d", "eu-central-1b"] }
  assert {
    condition = { for s in aws_subnet.public : s.availability_zone => s.cidr_block } == {
    eu-central-1b = "10.1.16.0/20", eu-central-1d = "10.1.48.0/20" }
    error_message = "The zones that are named must be used, each with the addresses of its letter."
  }
  assert {
    condition     = join(" ", keys(output.network.private_route_table_ids)) == "eu-central-1b eu-central-1d"
    error_message = "Links of regions must find a table by its zone: a place in a list changes."
  }
}

run "tagged" {
  variables { tags = { team = "edge" } }
  assert {
    condition     = alltrue([for r in concat([aws_vpc.this, aws_vpc_endpoint.s3], values(aws_subnet.public), values(aws_nat_gateway.this)) : r.tags.team == "edge" && r.tags.Name != ""])
    error_message = "Tags must be on every resource."
  }
}

run "zone_of_another_region" {
  command = plan
  variables { zone_names = ["us-east-1a", "us-east-1b"] }
  expect_failures = [data.aws_availability_zones.available]
}

run "more_zones_than_there_are" {
  command = plan
  variables { zones = 5 }
  expect_failures = [data.aws_availability_zones.available]
}

run "one_zone" {
  command = plan
  variables { zones = 1 }
  expect_failures = [var.zones]
}

run "one_zone_twice" {
  command = plan
  variables { zone_names = ["eu-central-1a", "eu-central-1a"] }
  expect_failures = [var.zone_names]
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
