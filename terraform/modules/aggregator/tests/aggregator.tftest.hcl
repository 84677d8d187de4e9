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
  home = {
    name                    = "eu"
    aws_region              = "eu-central-1"
    network                 = { vpc_id = "vpc-eu", cidr = "10.1.0.0/16", public_subnet_ids = ["subnet-1"], private_subnet_ids = ["subnet-2"], private_route_table_ids = { eu-central-1a = "rtb-1" } }
    kms_key_arn             = "arn:aws:kms:eu-central-1:123456789012:key/1"
    agent_security_group_id = "sg-agent"
    consul_tag              = "weir-eu"
    architecture            = "ARM64"
  }
  regions = {
    eu = { aws_region = "eu-central-1", cidr = "10.1.0.0/16", balancer_arn = "arn:eu", balancer_port = 443 }
    us = { aws_region = "us-east-1", cidr = "10.2.0.0/16", balancer_arn = "arn:us", balancer_port = 443 }
  }
  redis  = { user_group_id = "weir" }
  images = { weir = "registry.example/weir-global:0.1.0", consul = "hashicorp/consul:1.21.0" }
  secret = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:weir/aggregator-AbCdEf"
}

run "two_regions" {
  assert {
    condition     = { for name, g in aws_globalaccelerator_endpoint_group.region : name => g.endpoint_group_region } == { eu = "eu-central-1", us = "us-east-1" }
    error_message = "Clients must be led to each region."
  }
  assert {
    condition     = alltrue([for g in aws_globalaccelerator_endpoint_group.region : alltrue([for e in g.endpoint_configuration : e.client_ip_preservation_enabled])])
    error_message = "Envoy must see the addresses of clients."
  }
  assert {
    condition     = module.bootstrap.global_environment.WEIR_TLS_CLIENT_CA != "" && module.bootstrap.global_environment.WEIR_REDIS_TLS == "true"
    error_message = "Aggregators must demand certificates, and speak TLS to Redis."
  }
}

run "secrets_of_keys" {
  command = plan
  variables { key_secrets = true }
  assert {
    condition     = module.bootstrap.global_environment.WEIR_KEY_SECRETS == "/etc/weir/secrets/key-secrets"
    error_message = "Aggregators must read the secrets under which keys are hashed."
  }
}

run "secrets_under_an_own_key" {
  variables { secrets_key_arns = ["arn:aws:kms:eu-central-1:123456789012:key/secrets"] }
  assert {
    condition = anytrue([for s in jsondecode(module.service.execution_policy).Statement :
    contains(s.Action, "kms:Decrypt") && contains(flatten([s.Resource]), var.secrets_key_arns[0])])
    error_message = "What starts an aggregator must be able to decrypt its secrets."
  }
}

run "without_accelerator" {
  variables { accelerator = false }
  assert {
    condition     = output.address == null && length(aws_globalaccelerator_endpoint_group.region) == 0
    error_message = "The accelerator was not asked for."
  }
}

run "provider_of_another_region" {
  command = plan
  override_data {
    target = data.aws_region.current
    values = { region = "us-east-1" }
  }
  expect_failures = [data.aws_region.current]
}

run "the_same_addresses_twice" {
  command = plan
  variables {
    regions = {
      eu = { aws_region = "eu-central-1", cidr = "10.1.0.0/16", balancer_arn = "arn:eu", balancer_port = 443 }
      us = { aws_region = "us-east-1", cidr = "10.1.0.0/16", balancer_arn = "arn:us", balancer_port = 443 }
    }
  }
  expect_failures = [var.regions]
}

run "addresses_within_others" {
  command = plan
  variables {
    regions = {
      eu = { aws_region = "eu-central-1", cidr = "10.1.0.0/16", balancer_arn = "arn:eu", balancer_port = 443 }
      us = { aws_region = "us-east-1", cidr = "10.1.240.0/20", balancer_arn = "arn:us", balancer_port = 443 }
    }
  }
  expect_failures = [var.regions]
}

run "home_is_not_among_the_regions" {
  command = plan
  variables {
    regions = { us = { aws_region = "us-east-1", cidr = "10.2.0.0/16", balancer_arn = "arn:us", balancer_port = 443 } }
  }
  expect_failures = [var.regions]
}

run "no_aggregator" {
  command = plan
  variables { replicas = { min = 0 } }
  expect_failures = [var.replicas]
}

run "a_secret_in_place_of_its_name" {
  command = plan
  variables { secret = "secret" }
  expect_failures = [var.secret]
}
