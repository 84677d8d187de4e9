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
  description = "Programs of machines in S3 (envoy, consul, weir, and weir.wasm or weir.so) for architecture, each with its SHA-256."
  type        = map(object({ uri = string, sha256 = string }))
  nullable    = false
}

variable "filter" {
  description = "The filter in Envoy: wasm (weir.wasm) or native (weir.so)."
  type        = string
  default     = "wasm"
  nullable    = false
}

variable "aws_region" {
  description = "Region of AWS."
  type        = string
  default     = "eu-central-1"
  nullable    = false
}

variable "architecture" {
  description = "Processor of machines and tasks: ARM64 or X86_64."
  type        = string
  default     = "ARM64"
  nullable    = false
}

variable "image_id" {
  description = "Machine image: Amazon Linux 2023 for architecture, in aws_region."
  type        = string
  nullable    = false
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
  description = "Version of Valkey, and size of a node."
  type        = object({ engine_version = optional(string, "8.0"), node_type = optional(string, "cache.r7g.large") })
  default     = {}
  nullable    = false
}

variable "redis_user_groups" {
  description = "RBAC user group of Redis by region: what weir admin bootstrap prints."
  type        = object({ eu = string })
  nullable    = false
}

variable "secrets" {
  description = "ARNs in Secrets Manager by region and role: what weir admin bootstrap prints."
  type        = object({ eu = object({ pop = string, consul = string, service = string }) })
  nullable    = false
}

variable "admin_tokens" {
  description = "Text of a file of --admin-tokens, such as file(\"tokens.yaml\"): who may use the admin API. Empty: nobody."
  type        = string
  default     = ""
  nullable    = false
}

variable "prometheus_workspace" {
  description = "ARN of a workspace in Amazon Managed Service for Prometheus, in aws_region; empty: none."
  type        = string
  default     = ""
  nullable    = false
}

variable "tags" {
  description = "Tags of all resources."
  type        = map(string)
  default     = { application = "weir" }
  nullable    = false
}
