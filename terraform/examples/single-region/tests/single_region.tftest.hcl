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

variables {
  upstreams = ["app.internal:8443"]
  images    = { regional = "registry.example/weir-regional:0.1.0" }
  programs = {
    envoy       = { uri = "s3://programs/envoy", sha256 = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb" }
    consul      = { uri = "s3://programs/consul", sha256 = "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d" }
    weir        = { uri = "s3://programs/weir", sha256 = "18ac3e7343f016890c510e93f935261169d9e3f565436429830faf0934f4f8e4" }
    "weir.wasm" = { uri = "s3://programs/weir.wasm", sha256 = "2e7d2c03a9507ae265ecf5b5356885a53393a2029d241394997265a1a25aefc6" }
  }
  image_id          = "ami-0123456789abcdef0"
  redis_user_groups = { eu = "weir-eu", global = "weir-global" }
  secrets = {
    eu     = { for role in ["pop", "consul", "service"] : role => "arn:aws:secretsmanager:eu-central-1:123456789012:secret:weir/eu/${role}-AbCdEf" }
    global = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:weir/global-AbCdEf"
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
