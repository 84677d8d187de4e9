mock_provider "aws" {
  alias = "eu"

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

mock_provider "aws" {
  alias = "us"

  mock_data "aws_region" {
    defaults = { region = "us-east-1" }
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
    defaults = { names = ["us-east-1a", "us-east-1b", "us-east-1c"] }
  }
  mock_resource "aws_vpc" {
    defaults = { id = "vpc-us" }
  }
  mock_resource "aws_route_table" {
    defaults = { id = "rtb-us" }
  }
  mock_resource "aws_lb" {
    defaults = { arn = "arn:aws:elasticloadbalancing:us-east-1:123456789012:loadbalancer/net/weir/1", dns_name = "weir.us-east-1.example" }
  }
  mock_resource "aws_elasticache_replication_group" {
    defaults = { configuration_endpoint_address = "redis.us-east-1.example" }
  }
  mock_resource "aws_kms_key" {
    defaults = { arn = "arn:aws:kms:us-east-1:123456789012:key/1" }
  }
}

mock_provider "aws" {
  alias = "ap"

  mock_data "aws_region" {
    defaults = { region = "ap-southeast-1" }
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
    defaults = { names = ["ap-southeast-1a", "ap-southeast-1b", "ap-southeast-1c"] }
  }
  mock_resource "aws_vpc" {
    defaults = { id = "vpc-ap" }
  }
  mock_resource "aws_route_table" {
    defaults = { id = "rtb-ap" }
  }
  mock_resource "aws_lb" {
    defaults = { arn = "arn:aws:elasticloadbalancing:ap-southeast-1:123456789012:loadbalancer/net/weir/1", dns_name = "weir.ap-southeast-1.example" }
  }
  mock_resource "aws_elasticache_replication_group" {
    defaults = { configuration_endpoint_address = "redis.ap-southeast-1.example" }
  }
  mock_resource "aws_kms_key" {
    defaults = { arn = "arn:aws:kms:ap-southeast-1:123456789012:key/1" }
  }
}

# terraform.tfvars has the others: the test of the modules takes that of README.md.
variables {
  redis_user_groups = { eu = "weir-eu", us = "weir-us", ap = "weir-ap", aggregator = "weir-aggregator" }
  secrets = {
    eu         = { for role in ["pop", "consul", "service"] : role => "arn:aws:secretsmanager:eu-central-1:123456789012:secret:weir/eu/${role}-AbCdEf" }
    us         = { for role in ["pop", "consul", "service"] : role => "arn:aws:secretsmanager:us-east-1:123456789012:secret:weir/us/${role}-AbCdEf" }
    ap         = { for role in ["pop", "consul", "service"] : role => "arn:aws:secretsmanager:ap-southeast-1:123456789012:secret:weir/ap/${role}-AbCdEf" }
    aggregator = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:weir/aggregator-AbCdEf"
  }
}

# Each provider is mocked with a region of its own, so this shows which one a module got.
run "three_regions" {
  assert {
    condition     = output.regions == { eu = "eu-central-1", us = "us-east-1", ap = "ap-southeast-1" }
    error_message = "A module did not get the provider of its region."
  }
  assert {
    condition     = { for n, m in { eu = module.eu, us = module.us, ap = module.ap } : n => m.network.vpc_id } == { eu = "vpc-eu", us = "vpc-us", ap = "vpc-ap" }
    error_message = "The resources of a region were made with the provider of another one."
  }
  assert {
    condition     = module.aggregator.regions == tolist(["ap", "eu", "us"])
    error_message = "Clients must be led to three regions."
  }
  assert {
    condition     = local.consul_wan == ["provider=aws region=${module.eu.aws_region} tag_key=weir-consul-server tag_value=${module.eu.cell.consul_tag}"]
    error_message = "The other regions must look for Consul's servers where those of eu are, by their tag."
  }
}
