provider "aws" {
  region = var.aws_region
}

module "region" {
  source = "git::https://github.com/weirlimit/weir.git//terraform/modules/region?ref=v0.1.0"

  name         = "eu"
  aws_region   = var.aws_region
  architecture = var.architecture
  image_id     = var.image_id
  pop          = { upstreams = var.upstreams, filter = var.filter }
  pops         = var.pops
  redis        = merge(var.redis, { user_group_id = var.redis_user_groups.eu })
  images       = { weir = var.images.regional, consul = var.images.consul, collector = var.images.collector }
  programs     = var.programs
  secrets      = var.secrets.eu
  key_secrets  = true
  admin_tokens = var.admin_tokens
  tags         = var.tags

  prometheus_workspace = var.prometheus_workspace
}

output "address" {
  description = "DNS name for clients."
  value       = module.region.balancer.dns_name
}
