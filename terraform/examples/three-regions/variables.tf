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

variable "programs" {
  description = "Programs of machines in S3 (envoy, consul, weir.wasm), each with its SHA-256."
  type        = map(object({ uri = string, sha256 = string }))
  nullable    = false
}

variable "redis_user_groups" {
  description = "RBAC user group of Redis in each region, and that of the aggregators (in the region eu)."
  type        = object({ eu = string, us = string, ap = string, global = string })
  nullable    = false
}

variable "secrets" {
  description = "ARNs in Secrets Manager by region, role and file name, and those of the aggregators."
  type = object({
    eu     = object({ pop = map(string), consul = map(string), service = map(string) })
    us     = object({ pop = map(string), consul = map(string), service = map(string) })
    ap     = object({ pop = map(string), consul = map(string), service = map(string) })
    global = map(string)
  })
  nullable = false
}
