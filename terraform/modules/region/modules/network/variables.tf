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
  description = "Availability zones, two or three of one region: Redis and Consul spread over them."
  type        = list(string)
  nullable    = false

  validation {
    condition     = contains([2, 3], length(distinct(var.zones)))
    error_message = "zones must be two or three different availability zones, such as eu-central-1a, eu-central-1b, eu-central-1c."
  }
}
