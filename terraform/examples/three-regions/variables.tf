variable "upstreams" {
  description = "What the PoPs protect, host:port."
  type        = list(string)
  nullable    = false
}

variable "images" {
  description = "Images, each with a tag or digest."
  type        = object({ regional = string, global = string, consul = optional(string, "hashicorp/consul:1.21.0"), collector = optional(string) })
  nullable    = false
}

variable "filter" {
  description = "The filter in Envoy: wasm (weir.wasm) or native (weir.so)."
  type        = string
  default     = "wasm"
  nullable    = false
}

variable "programs" {
  description = "Programs of machines in S3 (envoy, consul, weir, and weir.wasm or weir.so) for architecture, each with its SHA-256."
  type        = map(object({ uri = string, sha256 = string }))
  nullable    = false
}

variable "architecture" {
  description = "Processor of machines and tasks: ARM64 or X86_64."
  type        = string
  default     = "ARM64"
  nullable    = false
}

variable "image_ids" {
  description = "Machine image of each region: Amazon Linux 2023 for architecture."
  type        = object({ eu = string, us = string, ap = string })
  nullable    = false
}

variable "redis" {
  description = "Version of Valkey of all clusters, and size of a node in the regions."
  type        = object({ engine_version = optional(string, "8.0"), node_type = optional(string, "cache.r7g.large") })
  default     = {}
  nullable    = false
}

variable "redis_user_groups" {
  description = "RBAC user group of Redis by region, and that of the aggregators (in the region eu): what weir admin bootstrap prints."
  type        = object({ eu = string, us = string, ap = string, aggregator = string })
  nullable    = false
}

variable "secrets" {
  description = "ARNs in Secrets Manager by region and role, and that of the aggregators: what weir admin bootstrap prints."
  type = object({
    eu         = object({ pop = string, consul = string, service = string })
    us         = object({ pop = string, consul = string, service = string })
    ap         = object({ pop = string, consul = string, service = string })
    aggregator = string
  })
  nullable = false
}

variable "admin_tokens" {
  description = "Text of a file of --admin-tokens, such as file(\"tokens.yaml\"): who may use the admin API. Empty: nobody."
  type        = string
  default     = ""
  nullable    = false
}

variable "prometheus_workspaces" {
  description = "ARN of a workspace in Amazon Managed Service for Prometheus for each region, in its region of AWS; the aggregators write into that of eu. Empty: none."
  type        = object({ eu = optional(string, ""), us = optional(string, ""), ap = optional(string, "") })
  default     = {}
  nullable    = false
}

variable "tags" {
  description = "Tags of all resources."
  type        = map(string)
  default     = { application = "weir" }
  nullable    = false
}
