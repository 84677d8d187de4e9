output "address" {
  description = "DNS name of the accelerator; null without."
  value       = one(aws_globalaccelerator_accelerator.this[*].dns_name)
}

output "regions" {
  description = "Names of the regions that clients are led to."
  value       = sort(keys(var.regions))
}

output "rolled" {
  description = "Known when all aggregators run what was applied: regions take it as `after`, and are updated then."
  value       = module.service.rolled
}
