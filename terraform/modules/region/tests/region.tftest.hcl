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
  name       = "eu"
  aws_region = "eu-central-1"
  peers      = { us = "10.2.0.0/16" }
  pop        = { upstreams = ["app.internal:8443"] }
  redis      = { user_group_id = "weir" }
  images     = { weir = "registry.example/weir-regional:0.1.0", consul = "hashicorp/consul:1.21.0" }
  programs = {
    envoy       = { uri = "s3://programs/envoy", sha256 = "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb" }
    consul      = { uri = "s3://programs/consul", sha256 = "3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d" }
    weir        = { uri = "s3://programs/weir", sha256 = "18ac3e7343f016890c510e93f935261169d9e3f565436429830faf0934f4f8e4" }
    "weir.wasm" = { uri = "s3://programs/weir.wasm", sha256 = "2e7d2c03a9507ae265ecf5b5356885a53393a2029d241394997265a1a25aefc6" }
  }
  secrets = {
    pop     = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:weir/eu/pop-AbCdEf"
    consul  = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:weir/eu/consul-AbCdEf"
    service = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:weir/eu/service-AbCdEf"
  }
  image_id = "ami-0123456789abcdef0"
}

run "a_region" {
  assert {
    condition     = output.balancer.port == 443 && output.redis_address == "redis.eu-central-1.example:6379" && output.cell.network.vpc_id == "vpc-eu"
    error_message = "The region's outputs are not those of its resources."
  }
  assert {
    condition     = module.bootstrap.regional_environment.WEIR_REDIS_TLS == "true" && module.bootstrap.regional_environment.WEIR_TLS_CLIENT_CA != "" && module.bootstrap.regional_environment.WEIR_AGGREGATOR_TLS == "true"
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
    secrets    = { for role in ["pop", "consul", "service"] : role => "arn:aws:secretsmanager:us-east-1:123456789012:secret:weir/us/${role}-AbCdEf" }
  }
  expect_failures = [data.aws_region.current]
}

run "each_role_reads_its_own" {
  assert {
    condition = { for role, policy in local.policies : role => flatten([for s in jsondecode(policy).Statement : s.Resource if s.Action[0] == "secretsmanager:GetSecretValue"]) } == {
    pop = ["arn:aws:secretsmanager:eu-central-1:123456789012:secret:weir/eu/pop-AbCdEf"], consul = ["arn:aws:secretsmanager:eu-central-1:123456789012:secret:weir/eu/consul-AbCdEf"] }
    error_message = "A machine must read the secret of its role, and no other."
  }
  assert {
    condition     = length(flatten([for s in jsondecode(local.policies.consul).Statement : s.Resource if s.Action[0] == "s3:GetObject"])) == 2
    error_message = "Consul's servers fetch consul, and weir, which makes the tokens."
  }
}

run "x86" {
  variables { architecture = "X86_64" }
  override_data {
    target = data.aws_ami.image
    values = { id = "ami-0123456789abcdef0", architecture = "x86_64" }
  }
  assert {
    condition     = local.pops.instance_type == "c7i.large" && local.consul_machine == "t3.small" && output.cell.architecture == "X86_64"
    error_message = "Machines and tasks must have the processor that is asked for."
  }
}

run "image_for_another_processor" {
  command = plan
  variables { architecture = "X86_64" }
  expect_failures = [data.aws_ami.image]
}

run "machines_with_another_processor" {
  command = plan
  variables {
    pops   = { instance_type = "c7i.large" }
    consul = { instance_type = "t3.small" }
  }
  expect_failures = [var.pops, var.consul]
}

run "no_image" {
  command = plan
  variables { image_id = "" }
  expect_failures = [var.image_id]
}

run "region_with_the_name_of_the_aggregators" {
  command = plan
  variables { name = "aggregator" }
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

run "a_secret_in_place_of_its_name" {
  command = plan
  variables { secrets = { pop = "a", consul = "b", service = "c" } }
  expect_failures = [var.secrets]
}

run "a_program_is_missing" {
  command = plan
  variables { programs = {} }
  expect_failures = [var.programs]
}

run "secrets_of_keys" {
  command = plan
  variables { key_secrets = true }
  assert {
    condition     = module.bootstrap.regional_environment.WEIR_KEY_SECRETS == "/etc/weir/secrets/key-secrets"
    error_message = "Replicas must read the secrets under which keys are hashed."
  }
}

run "secrets_of_another_region" {
  command = plan
  variables { secrets = { for role in ["pop", "consul", "service"] : role => "arn:aws:secretsmanager:us-east-1:123456789012:secret:weir/us/${role}-AbCdEf" } }
  expect_failures = [var.secrets]
}

run "a_peer_that_is_everybody" {
  command = plan
  variables { peers = { us = "0.0.0.0/0" } }
  expect_failures = [var.peers]
}
