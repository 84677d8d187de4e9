variable "upstreams" {
  description = "What the PoPs protect, host:port."
  type        = list(string)
  nullable    = false
}

variable "images" {
  description = "Images, each with a tag or digest."
  type        = object({ regional = string, consul = optional(string, "hashicorp/consul:1.21.0"), collector = optional(string) })
  nullable    = false
}

variable "programs" {
  description = "Programs of machines in S3 (envoy, consul, weir.wasm), each with its SHA-256."
  type        = map(object({ uri = string, sha256 = string }))
  nullable    = false
}

variable "aws_region" {
  description = "Region of AWS."
  type        = string
  default     = "eu-central-1"
  nullable    = false

  validation {
    condition     = can(regex("^(af-south-1|ap-east-[12]|ap-northeast-[1-3]|ap-south-[12]|ap-southeast-[1-7]|ca-(central|west)-1|cn-north(west)?-1|eu-central-[12]|eu-north-1|eu-south-[12]|eu-west-[1-3]|il-central-1|me-(central|south)-1|mx-central-1|sa-east-1|us-(east|west)-[12]|us-gov-(east|west)-1)$", var.aws_region))
    error_message = "aws_region must be a region of AWS, such as eu-central-1. One that is newer than this module is to be added to the list in variables.tf."
  }
}

variable "pops" {
  description = "How many PoPs."
  type        = object({ min = optional(number, 3), max = optional(number, 12) })
  default     = {}
  nullable    = false

  validation {
    condition     = var.pops.min >= 1 && var.pops.max >= var.pops.min
    error_message = "pops.min must be 1 or more, and pops.max not less than that: a region without a PoP serves nobody."
  }
}

variable "redis" {
  description = "Size of a node, and the RBAC user group."
  type        = object({ node_type = optional(string, "cache.r7g.large"), user_group_id = string })
  nullable    = false
}

variable "secrets" {
  description = "ARNs in Secrets Manager by role and file name."
  type        = object({ pop = map(string), consul = map(string), service = map(string) })
  nullable    = false
}
