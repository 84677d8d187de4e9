# A region more: an alias, a module and a link here, and a line in local.regions.
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
  source    = "../../modules/region"
  providers = { aws = aws.eu }

  name       = "eu"
  aws_region = "eu-central-1"
  zones      = ["eu-central-1a", "eu-central-1b", "eu-central-1c"]
  cidr       = local.cidrs.eu
  peers      = { us = local.cidrs.us, ap = local.cidrs.ap }
  primary    = "eu"
  pop        = { upstreams = var.upstreams }
  redis      = { user_group_id = var.redis_user_groups.eu }
  images     = local.images
  programs   = var.programs
  secrets    = var.secrets.eu
}

module "us" {
  source    = "../../modules/region"
  providers = { aws = aws.us }

  name       = "us"
  aws_region = "us-east-1"
  zones      = ["us-east-1a", "us-east-1b", "us-east-1c"]
  cidr       = local.cidrs.us
  peers      = { eu = local.cidrs.eu, ap = local.cidrs.ap }
  primary    = "eu"
  consul_wan = local.consul_wan
  pop        = { upstreams = var.upstreams }
  redis      = { user_group_id = var.redis_user_groups.us }
  images     = local.images
  programs   = var.programs
  secrets    = var.secrets.us
}

module "ap" {
  source    = "../../modules/region"
  providers = { aws = aws.ap }

  name       = "ap"
  aws_region = "ap-southeast-1"
  zones      = ["ap-southeast-1a", "ap-southeast-1b", "ap-southeast-1c"]
  cidr       = local.cidrs.ap
  peers      = { eu = local.cidrs.eu, us = local.cidrs.us }
  primary    = "eu"
  consul_wan = local.consul_wan
  pop        = { upstreams = var.upstreams }
  redis      = { user_group_id = var.redis_user_groups.ap }
  images     = local.images
  programs   = var.programs
  secrets    = var.secrets.ap
}

module "link_eu_us" {
  source    = "../../modules/global/modules/link"
  providers = { aws.requester = aws.eu, aws.accepter = aws.us }

  name      = "eu-us"
  requester = module.eu.network
  accepter  = merge(module.us.network, { aws_region = module.us.aws_region })
}

module "link_eu_ap" {
  source    = "../../modules/global/modules/link"
  providers = { aws.requester = aws.eu, aws.accepter = aws.ap }

  name      = "eu-ap"
  requester = module.eu.network
  accepter  = merge(module.ap.network, { aws_region = module.ap.aws_region })
}

module "link_us_ap" {
  source    = "../../modules/global/modules/link"
  providers = { aws.requester = aws.us, aws.accepter = aws.ap }

  name      = "us-ap"
  requester = module.us.network
  accepter  = merge(module.ap.network, { aws_region = module.ap.aws_region })
}

module "global" {
  source    = "../../modules/global"
  providers = { aws = aws.eu }

  home    = module.eu.cell
  redis   = { user_group_id = var.redis_user_groups.global }
  images  = { weir = var.images.global, consul = var.images.consul, collector = var.images.collector }
  secrets = var.secrets.global
  regions = { for r in [module.eu, module.us, module.ap] : r.cell.name => {
    aws_region    = r.aws_region
    cidr          = r.network.cidr
    balancer_arn  = r.balancer.arn
    balancer_port = r.balancer.port
  } }
}

output "address" {
  description = "DNS name for clients: it leads to the nearest region."
  value       = module.global.address
}

output "regions" {
  description = "Region of AWS of each region, as its provider has it."
  value       = { for r in [module.eu, module.us, module.ap] : r.cell.name => r.aws_region }
}
