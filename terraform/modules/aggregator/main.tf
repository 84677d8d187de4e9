data "aws_region" "current" {
  lifecycle {
    postcondition {
      condition     = self.region == var.home.aws_region
      error_message = "The aggregators must be in ${var.home.aws_region}, and the provider is for ${self.region}: pass the alias of the region ${var.home.name} in providers."
    }
  }
}

module "bootstrap" {
  source = "../bootstrap"

  region = var.home.name
  consul = { join = ["provider=aws region=${var.home.aws_region} tag_key=weir-consul-server tag_value=${var.home.consul_tag}"] }
  service = {
    replicas       = var.replicas.min
    redis          = [module.redis.address]
    redis_username = var.redis.user
    key_secrets    = var.key_secrets
    admin_tokens   = var.admin_tokens != ""
  }
}

module "redis" {
  source = "../region/modules/redis"

  name           = "weir-global"
  vpc_id         = var.home.network.vpc_id
  subnet_ids     = var.home.network.private_subnet_ids
  engine_version = var.redis.engine_version
  node_type      = var.redis.node_type
  shards         = var.redis.shards
  fewer_shards   = var.redis.fewer_shards
  replicas       = var.redis.replicas
  user_group_id  = var.redis.user_group_id
  kms_key_arn    = var.home.kms_key_arn
  clients        = { weir-global = module.service.security_group_id }
  alarm_actions  = var.alarm_actions
  tags           = var.tags
}

module "service" {
  source = "../region/modules/service"

  name                    = "weir-${var.home.name}"
  program                 = "weir-global"
  network                 = { vpc_id = var.home.network.vpc_id, private_subnet_ids = var.home.network.private_subnet_ids }
  images                  = var.images
  environment             = module.bootstrap.global_environment
  consul_agent            = module.bootstrap.consul_client_json
  secret                  = var.secret
  node                    = "${var.home.name}-aggregator"
  architecture            = var.home.architecture
  secrets_key_arns        = var.secrets_key_arns
  task_policy             = jsonencode({ Version = "2012-10-17", Statement = [{ Effect = "Allow", Action = ["ec2:DescribeInstances"], Resource = "*" }] })
  kms_key_arn             = var.home.kms_key_arn
  agent_security_group_id = var.home.agent_security_group_id
  redis_security_group_id = module.redis.security_group_id
  callers                 = { cidrs = { for name, r in var.regions : name => r.cidr } }
  replicas                = var.replicas
  admin_tokens            = var.admin_tokens
  prometheus_workspace    = var.prometheus_workspace
  alarm_actions           = var.alarm_actions
  tags                    = var.tags
}

resource "aws_globalaccelerator_accelerator" "this" {
  count = var.accelerator ? 1 : 0

  name            = "weir"
  ip_address_type = "IPV4"
  tags            = var.tags
}

resource "aws_globalaccelerator_listener" "clients" {
  count = var.accelerator ? 1 : 0

  accelerator_arn = aws_globalaccelerator_accelerator.this[0].arn
  protocol        = "TCP"
  port_range {
    from_port = values(var.regions)[0].balancer_port
    to_port   = values(var.regions)[0].balancer_port
  }
}

resource "aws_globalaccelerator_endpoint_group" "region" {
  for_each = { for name, r in var.regions : name => r if var.accelerator }

  listener_arn          = aws_globalaccelerator_listener.clients[0].arn
  endpoint_group_region = each.value.aws_region

  endpoint_configuration {
    endpoint_id                    = each.value.balancer_arn
    weight                         = each.value.weight
    client_ip_preservation_enabled = true # keys by client_ip need it
  }
}
