mock_provider "aws" {
  mock_data "aws_region" {
    defaults = { region = "eu-central-1" }
  }
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  mock_data "aws_ami" {
    defaults = { id = "ami-0123456789abcdef0", architecture = "arm64" }
  }
  mock_data "aws_availability_zones" {
    defaults = { names = ["eu-central-1a", "eu-central-1b", "eu-central-1c"] }
  }
  mock_resource "aws_vpc" {
    defaults = { id = "vpc-eu" }
  }
  mock_resource "aws_route_table" {
    defaults = { id = "rtb-eu" }
  }
  mock_resource "aws_lb" {
    defaults = { arn = "arn:aws:elasticloadbalancing:eu-central-1:123456789012:loadbalancer/net/weir/1", dns_name = "weir.eu-central-1.example" }
  }
  mock_resource "aws_elasticache_replication_group" {
    defaults = { configuration_endpoint_address = "redis.eu-central-1.example" }
  }
  mock_resource "aws_kms_key" {
    defaults = { arn = "arn:aws:kms:eu-central-1:123456789012:key/1" }
  }
}

# terraform.tfvars has the others: the test of the modules takes that of README.md.
variables {
  redis_user_groups = { eu = "weir-eu", aggregator = "weir-aggregator" }
  secrets = {
    eu         = { for role in ["pop", "consul", "service"] : role => "arn:aws:secretsmanager:eu-central-1:123456789012:secret:weir/eu/${role}-AbCdEf" }
    aggregator = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:weir/aggregator-AbCdEf"
  }
}

run "example" {
  assert {
    condition     = output.address == "weir.eu-central-1.example"
    error_message = "Clients need the name of the load balancer."
  }
}

run "no_pop" {
  command = plan
  variables { pops = { min = 0 } }
  expect_failures = [var.pops]
}
