provider "aws" {
  region = var.aws_region

  default_tags {
    tags = { application = "weir" }
  }
}

module "region" {
  source = "../../modules/region"

  name       = "eu"
  aws_region = var.aws_region
  zones      = [for letter in ["a", "b", "c"] : "${var.aws_region}${letter}"]
  pop        = { upstreams = var.upstreams }
  pops       = var.pops
  redis      = var.redis
  images     = { weir = var.images.regional, consul = var.images.consul, collector = var.images.collector }
  programs   = var.programs
  secrets    = var.secrets
}

output "address" {
  description = "DNS name for clients."
  value       = module.region.balancer.dns_name
}
