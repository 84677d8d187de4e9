data "aws_region" "current" {
  lifecycle {
    postcondition {
      condition     = self.region == var.aws_region
      error_message = "The region ${var.name} must be in ${var.aws_region}, and its provider is for ${self.region}: pass the alias of ${var.aws_region} in providers."
    }
  }
}

data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

data "aws_ami" "image" {
  include_deprecated = true # as each is after some months

  filter {
    name   = "image-id"
    values = [var.image_id]
  }
  lifecycle {
    postcondition {
      condition     = self.architecture == local.processors[var.architecture]
      error_message = "image_id ${var.image_id} is for ${self.architecture}, and architecture is ${var.architecture}: name an image for ${local.processors[var.architecture]}, or the other architecture."
    }
  }
}

locals {
  name    = "weir-${var.name}"
  network = one(concat(module.network[*].network, var.network[*]))
  root    = "arn:${data.aws_partition.current.partition}:iam::${data.aws_caller_identity.current.account_id}:root"

  # Families of Graviton have a g behind their generation: c7g, t4g, im4gn; g5 has not.
  graviton   = "^(a1|[a-z]+[0-9]+[a-z]*g[a-z]*)\\."
  processors = { ARM64 = "arm64", X86_64 = "x86_64" } # as EC2 has them, by what ECS has

  pops           = merge(var.pops, { instance_type = coalesce(var.pops.instance_type, { ARM64 = "c7g.large", X86_64 = "c7i.large" }[var.architecture]) })
  consul_machine = coalesce(var.consul.instance_type, { ARM64 = "t4g.small", X86_64 = "t3.small" }[var.architecture])

  snapshots = contains(["", var.name], var.primary) ? var.consul.snapshots : "" # where the rules are

  # It starts machines, whose disks are encrypted with the key.
  autoscaling = "arn:${data.aws_partition.current.partition}:iam::${data.aws_caller_identity.current.account_id}:role/aws-service-role/autoscaling.amazonaws.com/AWSServiceRoleForAutoScaling"

  # Each role may find Consul's servers, and read its own secrets and programs.
  find = { Effect = "Allow", Action = ["ec2:DescribeInstances"], Resource = "*" } # has no resources
  policies = { for role, secret in { pop = var.secrets.pop, consul = var.secrets.consul } : role => jsonencode({ Version = "2012-10-17", Statement = concat(
    [
      local.find,
      { Effect = "Allow", Action = ["secretsmanager:GetSecretValue"], Resource = [secret] },
      { Effect = "Allow", Action = ["s3:GetObject"], Resource = [for name, p in var.programs :
      "arn:${data.aws_partition.current.partition}:s3:::${trimprefix(p.uri, "s3://")}" if role == "pop" || contains(["consul", "weir"], name)] },
    ],
    [for keys in length(var.secrets_key_arns) > 0 ? [var.secrets_key_arns] : [] : { Effect = "Allow", Action = ["kms:Decrypt"], Resource = keys }],
    [for w in compact([var.prometheus_workspace]) : { Effect = "Allow", Action = ["aps:RemoteWrite"], Resource = w } if role == "pop"],
  ) }) }
}

resource "aws_kms_key" "this" {
  description             = "Weir in ${var.name}: disks, logs, and Redis at rest"
  enable_key_rotation     = true
  deletion_window_in_days = 30
  tags                    = var.tags
  policy = jsonencode({ Version = "2012-10-17", Statement = [
    { Effect = "Allow", Action = "kms:*", Resource = "*", Principal = { AWS = local.root } },
    {
      Effect    = "Allow", Action = ["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"], Resource = "*"
      Principal = { Service = "logs.${var.aws_region}.amazonaws.com" }
      Condition = { ArnLike = { "kms:EncryptionContext:aws:logs:arn" = "arn:${data.aws_partition.current.partition}:logs:${var.aws_region}:${data.aws_caller_identity.current.account_id}:log-group:/weir/*" } }
    },
    {
      Effect    = "Allow", Action = ["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"], Resource = "*"
      Principal = { AWS = local.autoscaling }
    },
    { # for disks alone, not for whoever else
      Effect    = "Allow", Action = ["kms:CreateGrant"], Resource = "*", Condition = { Bool = { "kms:GrantIsForAWSResource" = "true" } }
      Principal = { AWS = local.autoscaling }
    },
  ] })
}

module "network" {
  source = "./modules/network"
  count  = var.network == null ? 1 : 0

  name       = local.name
  cidr       = var.cidr
  zones      = var.zones
  zone_names = var.zone_names
  tags       = var.tags
}

module "bootstrap" {
  source = "../bootstrap"

  region = var.name
  pop    = var.pop
  consul = {
    primary  = var.primary
    servers  = var.consul.servers
    join     = ["provider=aws region=${var.aws_region} tag_key=weir-consul-server tag_value=${local.name}"]
    join_wan = var.consul_wan
  }
  service = {
    replicas       = var.replicas.min
    redis          = [module.redis.address]
    redis_username = var.redis.user
    key_secrets    = var.key_secrets
    admin_tokens   = var.admin_tokens != ""
  }
  machine = {
    programs      = var.programs
    pop_secret    = var.secrets.pop
    consul_secret = var.secrets.consul
    logs          = "/weir/${local.name}" # the submodules edge and consul make its groups
    snapshots     = local.snapshots
    volume        = "/dev/sdf" # that of the launch template of the submodule consul
    prometheus    = var.prometheus_workspace
  }
}

module "redis" {
  source = "./modules/redis"

  name           = local.name
  vpc_id         = local.network.vpc_id
  subnet_ids     = local.network.private_subnet_ids
  engine_version = var.redis.engine_version
  node_type      = var.redis.node_type
  shards         = var.redis.shards
  fewer_shards   = var.redis.fewer_shards
  replicas       = var.redis.replicas
  user_group_id  = var.redis.user_group_id
  kms_key_arn    = aws_kms_key.this.arn
  clients        = { weir-regional = module.service.security_group_id }
  alarm_actions  = var.alarm_actions
  tags           = var.tags
}

module "consul" {
  source = "./modules/consul"

  name          = local.name
  vpc_id        = local.network.vpc_id
  subnet_ids    = local.network.private_subnet_ids
  servers       = var.consul.servers
  instance_type = local.consul_machine
  sessions      = var.consul.sessions
  snapshots     = local.snapshots
  image_id      = data.aws_ami.image.id # once its processor is checked
  user_data     = module.bootstrap.consul_user_data
  policy        = local.policies.consul
  kms_key_arn   = aws_kms_key.this.arn
  peer_cidrs    = values(var.peers)
  tags          = var.tags
}

module "service" {
  source = "./modules/service"

  name                    = local.name
  program                 = "weir-regional"
  network                 = { vpc_id = local.network.vpc_id, private_subnet_ids = local.network.private_subnet_ids }
  images                  = var.images
  environment             = module.bootstrap.regional_environment
  consul_agent            = module.bootstrap.consul_client_json
  secret                  = var.secrets.service
  node                    = "${var.name}-service"
  architecture            = var.architecture
  after                   = var.after
  secrets_key_arns        = var.secrets_key_arns
  task_policy             = jsonencode({ Version = "2012-10-17", Statement = [local.find] })
  kms_key_arn             = aws_kms_key.this.arn
  agent_security_group_id = module.consul.agent_security_group_id
  redis_security_group_id = module.redis.security_group_id
  callers                 = { groups = { PoPs = module.edge.security_group_id } }
  calls                   = merge(var.peers, { (var.name) = local.network.cidr })
  size                    = var.size
  replicas                = var.replicas
  admin_tokens            = var.admin_tokens
  prometheus_workspace    = var.prometheus_workspace
  alarm_actions           = var.alarm_actions
  tags                    = var.tags
}

module "edge" {
  source = "./modules/edge"

  name                      = local.name
  network                   = { vpc_id = local.network.vpc_id, public_subnet_ids = local.network.public_subnet_ids, private_subnet_ids = local.network.private_subnet_ids }
  pops                      = local.pops
  ports                     = { client = 10000, health = 10002 } # as the module bootstrap has them
  upstream_ports            = [for u in var.pop.upstreams : try(tonumber(split(":", u)[1]), 0)]
  image_id                  = data.aws_ami.image.id # once its processor is checked
  user_data                 = module.bootstrap.pop_user_data
  policy                    = local.policies.pop
  sessions                  = var.pops.sessions
  kms_key_arn               = aws_kms_key.this.arn
  agent_security_group_id   = module.consul.agent_security_group_id
  service_security_group_id = module.service.security_group_id
  after                     = module.service.rolled
  alarm_actions             = var.alarm_actions
  tags                      = var.tags
}
