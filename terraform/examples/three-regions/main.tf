# One region more: an alias, a module and its links here, and a place in module.aggregator.regions.
provider "aws" {
  alias  = "eu"
  region = "eu-central-1"
}

provider "aws" {
  alias  = "us"
  region = "us-east-1"
}

provider "aws" {
  alias  = "ap"
  region = "ap-southeast-1"
}

locals {
  cidrs  = { eu = "10.1.0.0/16", us = "10.2.0.0/16", ap = "10.3.0.0/16" }
  images = { weir = var.images.regional, consul = var.images.consul, collector = var.images.collector }

  # The servers of eu, by the tag that module.eu gives them: a new server is found as the old one was.
  consul_wan = ["provider=aws region=eu-central-1 tag_key=weir-consul-server tag_value=weir-eu"]
}

module "eu" {
  source    = "git::https://github.com/weirlimit/weir.git//terraform/modules/region?ref=v0.1.0"
  providers = { aws = aws.eu }

  name         = "eu"
  aws_region   = "eu-central-1"
  cidr         = local.cidrs.eu
  peers        = { us = local.cidrs.us, ap = local.cidrs.ap }
  primary      = "eu"
  pop          = { upstreams = var.upstreams, filter = var.filter }
  redis        = merge(var.redis, { user_group_id = var.redis_user_groups.eu })
  images       = local.images
  programs     = var.programs
  image_id     = var.image_ids.eu
  architecture = var.architecture
  secrets      = var.secrets.eu
  key_secrets  = true
  tags         = var.tags
  after        = module.aggregator.rolled
  admin_tokens = var.admin_tokens

  prometheus_workspace = var.prometheus_workspaces.eu
}

module "us" {
  source    = "git::https://github.com/weirlimit/weir.git//terraform/modules/region?ref=v0.1.0"
  providers = { aws = aws.us }

  name         = "us"
  aws_region   = "us-east-1"
  cidr         = local.cidrs.us
  peers        = { eu = local.cidrs.eu, ap = local.cidrs.ap }
  primary      = "eu"
  consul_wan   = local.consul_wan
  pop          = { upstreams = var.upstreams, filter = var.filter }
  redis        = merge(var.redis, { user_group_id = var.redis_user_groups.us })
  images       = local.images
  programs     = var.programs
  image_id     = var.image_ids.us
  architecture = var.architecture
  secrets      = var.secrets.us
  key_secrets  = true
  tags         = var.tags
  after        = module.aggregator.rolled
  admin_tokens = var.admin_tokens

  prometheus_workspace = var.prometheus_workspaces.us
}

module "ap" {
  source    = "git::https://github.com/weirlimit/weir.git//terraform/modules/region?ref=v0.1.0"
  providers = { aws = aws.ap }

  name         = "ap"
  aws_region   = "ap-southeast-1"
  cidr         = local.cidrs.ap
  peers        = { eu = local.cidrs.eu, us = local.cidrs.us }
  primary      = "eu"
  consul_wan   = local.consul_wan
  pop          = { upstreams = var.upstreams, filter = var.filter }
  redis        = merge(var.redis, { user_group_id = var.redis_user_groups.ap })
  images       = local.images
  programs     = var.programs
  image_id     = var.image_ids.ap
  architecture = var.architecture
  secrets      = var.secrets.ap
  key_secrets  = true
  tags         = var.tags
  after        = module.aggregator.rolled
  admin_tokens = var.admin_tokens

  prometheus_workspace = var.prometheus_workspaces.ap
}

module "link_eu_us" {
  source    = "git::https://github.com/weirlimit/weir.git//terraform/modules/aggregator/modules/link?ref=v0.1.0"
  providers = { aws.requester = aws.eu, aws.accepter = aws.us }

  name      = "eu-us"
  requester = module.eu.network
  accepter  = merge(module.us.network, { aws_region = module.us.aws_region })
  tags      = var.tags
}

module "link_eu_ap" {
  source    = "git::https://github.com/weirlimit/weir.git//terraform/modules/aggregator/modules/link?ref=v0.1.0"
  providers = { aws.requester = aws.eu, aws.accepter = aws.ap }

  name      = "eu-ap"
  requester = module.eu.network
  accepter  = merge(module.ap.network, { aws_region = module.ap.aws_region })
  tags      = var.tags
}

module "link_us_ap" {
  source    = "git::https://github.com/weirlimit/weir.git//terraform/modules/aggregator/modules/link?ref=v0.1.0"
  providers = { aws.requester = aws.us, aws.accepter = aws.ap }

  name      = "us-ap"
  requester = module.us.network
  accepter  = merge(module.ap.network, { aws_region = module.ap.aws_region })
  tags      = var.tags
}

module "aggregator" {
  source    = "git::https://github.com/weirlimit/weir.git//terraform/modules/aggregator?ref=v0.1.0"
  providers = { aws = aws.eu }

  home        = module.eu.cell
  redis       = merge({ for k, v in var.redis : k => v if k == "engine_version" }, { user_group_id = var.redis_user_groups.aggregator })
  images      = { weir = var.images.global, consul = var.images.consul, collector = var.images.collector }
  secret      = var.secrets.aggregator
  key_secrets = true
  tags        = var.tags

  admin_tokens         = var.admin_tokens
  prometheus_workspace = var.prometheus_workspaces.eu
  regions = { for r in [module.eu, module.us, module.ap] : r.cell.name => {
    aws_region    = r.aws_region
    cidr          = r.network.cidr
    balancer_arn  = r.balancer.arn
    balancer_port = r.balancer.port
  } }
}

output "address" {
  description = "DNS name for clients: it leads to the nearest region."
  value       = module.aggregator.address
}

output "regions" {
  description = "Region of AWS of each region, as its provider has it."
  value       = { for r in [module.eu, module.us, module.ap] : r.cell.name => r.aws_region }
}
