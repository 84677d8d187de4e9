variable "name" {
  description = "Begins the names of all resources."
  type        = string
  nullable    = false
}

variable "cidr" {
  description = "Addresses of the VPC, a /16 to /20. Regions that are linked must not overlap."
  type        = string
  nullable    = false

  validation {
    condition     = can(cidrnetmask(var.cidr)) && can(regex("/(1[6-9]|20)$", var.cidr))
    error_message = "cidr must be an IPv4 range from /16 to /20, such as 10.1.0.0/16."
  }
}

variable "zones" {
  description = "In how many availability zones: those that come first by name. Redis and Consul spread over them."
  type        = number
  default     = 3
  nullable    = false

  validation {
    condition     = var.zones >= 2 && var.zones <= 6 && floor(var.zones) == var.zones
    error_message = "zones must be 2 to 6: with one, its failure is that of the region."
  }
}

variable "zone_names" {
  description = "Availability zones by name, where the first are not those that you want; empty: as many as zones states."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = length(var.zone_names) == 0 || length(distinct(var.zone_names)) >= 2 && length(distinct(var.zone_names)) == length(var.zone_names)
    error_message = "zone_names must be two or more different availability zones, such as eu-central-1a and eu-central-1b."
  }
  validation {
    condition     = alltrue([for name in var.zone_names : can(regex("[0-9][a-h]$", name))])
    error_message = "zone_names must be names of availability zones, which end in a letter from a to h, such as eu-central-1a."
  }
}

variable "tags" {
  description = "Tags of all resources."
  type        = map(string)
  default     = {}
  nullable    = false
}
