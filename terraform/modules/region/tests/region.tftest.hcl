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
  mock_data "aws_ssm_parameter" {
    defaults = { value = "ami-1" }
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
  name       = "eu"
  aws_region = "eu-central-1"
  zones      = ["eu-central-1a", "eu-central-1b", "eu-central-1c"]
  peers      = { us = "10.2.0.0/16" }
  pop        = { upstreams = ["app.internal:8443"] }
  redis      = { user_group_id = "weir" }
  images     = { weir = "registry.example/weir-regional:0.1.0", consul = "hashicorp/consul:1.21.0" }
  programs = {
    envoy       = { uri = "s3://programs/envoy", sha256 = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb" }
    consul      = { uri = "s3://programs/consul", sha256 = "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d" }
    "weir.wasm" = { uri = "s3://programs/weir.wasm", sha256 = "2e7d2c03a9507ae265ecf5b5356885a53393a2029d241394997265a1a25aefc6" }
  }
  secrets = {
    pop     = { for file in ["ca.pem", "cert.pem", "key.pem", "client-cert.pem", "client-key.pem", "consul.json", "consul-ca.pem", "consul-cert.pem", "consul-key.pem"] : file => "arn:aws:secretsmanager:eu-central-1:123456789012:secret:${file}" }
    consul  = { for file in ["consul.json", "consul-ca.pem", "consul-cert.pem", "consul-key.pem"] : file => "arn:aws:secretsmanager:eu-central-1:123456789012:secret:${file}" }
    service = { for file in ["ca.pem", "cert.pem", "key.pem", "consul.json", "consul-ca.pem", "consul-cert.pem", "consul-key.pem", "consul-token", "redis-password"] : file => "arn:aws:secretsmanager:eu-central-1:123456789012:secret:${file}" }
  }
}

run "a_region" {
  assert {
    condition     = output.balancer.port == 443 && output.redis_address == "redis.eu-central-1.example:6379" && output.cell.network.vpc_id == "vpc-eu"
    error_message = "The region's outputs are not those of its resources."
  }
  assert {
    condition     = module.bootstrap.regional_environment.WEIR_REDIS_TLS == "true" && module.bootstrap.regional_environment.WEIR_TLS_CLIENT_CA != "" && module.bootstrap.regional_environment.WEIR_GLOBAL_TLS == "true"
    error_message = "The service must speak TLS to Redis, to PoPs and to aggregators."
  }
  assert {
    condition     = length(base64gzip(module.bootstrap.pop_user_data)) < 16384 && length(base64gzip(module.bootstrap.consul_user_data)) < 16384
    error_message = "EC2 takes 16 KiB of user data."
  }
  assert {
    condition     = strcontains(module.bootstrap.envoy_yaml, "DownstreamTlsContext")
    error_message = "Clients must be served with TLS."
  }
}

run "key" {
  assert {
    condition = alltrue([for s in jsondecode(aws_kms_key.this.policy).Statement :
    try(s.Condition.Bool["kms:GrantIsForAWSResource"], "") == "true" if s.Action != "kms:*" && contains(flatten([s.Action]), "kms:CreateGrant")])
    error_message = "Grants of the key may be made for resources of AWS alone."
  }
  assert {
    condition = [for s in jsondecode(aws_kms_key.this.policy).Statement :
      s.Condition.ArnLike["kms:EncryptionContext:aws:logs:arn"] if startswith(try(s.Principal.Service, ""), "logs.")] == [
    "arn:aws:logs:eu-central-1:123456789012:log-group:/weir/*"]
    error_message = "CloudWatch may use the key for the logs of this account alone."
  }
  assert {
    condition     = length([for s in jsondecode(aws_kms_key.this.policy).Statement : s if contains(flatten([s.Action]), "kms:CreateGrant")]) == 1
    error_message = "Machines with encrypted disks do not start without a grant."
  }
}

run "joins_another_region" {
  variables {
    primary    = "us"
    consul_wan = ["provider=aws region=us-east-1 tag_key=weir-consul-server tag_value=weir-us"]
  }
  assert {
    condition     = join(" ", jsondecode(module.bootstrap.consul_server_json).retry_join_wan) == join(" ", var.consul_wan)
    error_message = "Consul's servers must join those of other regions."
  }
  assert {
    condition = alltrue([for p in values(local.policies) : length([for s in jsondecode(p).Statement :
    s if contains(s.Action, "ec2:DescribeInstances") && s.Resource == "*"]) == 1])
    error_message = "Who looks for servers by their tag must be allowed to."
  }
}

run "own_network" {
  variables {
    zones   = []
    network = { vpc_id = "vpc-own", cidr = "10.9.0.0/16", public_subnet_ids = ["subnet-1"], private_subnet_ids = ["subnet-2"] }
  }
  assert {
    condition     = output.network.vpc_id == "vpc-own" && length(module.network) == 0
    error_message = "A network that is given must be used, and no other one made."
  }
}

run "provider_of_another_region" {
  command = plan
  variables {
    aws_region = "us-east-1"
    zones      = ["us-east-1a", "us-east-1b"]
  }
  expect_failures = [data.aws_region.current]
}

run "unknown_region" {
  command = plan
  variables {
    aws_region = "eu-middle-1"
    zones      = ["eu-middle-1a", "eu-middle-1b"]
  }
  expect_failures = [var.aws_region]
}

run "unknown_region_of_an_area_that_is_known" {
  command = plan
  variables {
    aws_region = "eu-central-9"
    zones      = ["eu-central-9a", "eu-central-9b"]
  }
  expect_failures = [var.aws_region]
}

run "region_with_the_name_of_the_aggregators" {
  command = plan
  variables { name = "global" }
  expect_failures = [var.name]
}

run "no_pop" {
  command = plan
  variables { pops = { min = 0 } }
  expect_failures = [var.pops]
}

run "redis_without_users" {
  command = plan
  variables { redis = { user_group_id = "" } }
  expect_failures = [var.redis]
}

run "a_secret_is_missing" {
  command = plan
  variables { secrets = { pop = {}, consul = {}, service = {} } }
  expect_failures = [var.secrets]
}

run "a_program_is_missing" {
  command = plan
  variables { programs = {} }
  expect_failures = [var.programs]
}

run "neither_zones_nor_network" {
  command = plan
  variables { zones = [] }
  expect_failures = [var.zones]
}

run "zones_of_another_region" {
  command = plan
  variables { zones = ["us-east-1a", "us-east-1b"] }
  expect_failures = [var.zones]
}

run "a_peer_that_is_everybody" {
  command = plan
  variables { peers = { us = "0.0.0.0/0" } }
  expect_failures = [var.peers]
}
