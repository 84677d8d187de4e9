variable "home" {
  description = "Output cell of the region with the aggregators: the primary of Consul."
  type = object({
    name       = string
    aws_region = string
    network = object({
      vpc_id                  = string
      cidr                    = string
      public_subnet_ids       = list(string)
      private_subnet_ids      = list(string)
      private_route_table_ids = map(string)
    })
    kms_key_arn             = string
    agent_security_group_id = string
    consul_tag              = string
    architecture            = string
  })
  nullable = false
}

variable "regions" {
  description = "All regions, home among them, by name: region of AWS, addresses, ARN and port of the load balancer."
  type = map(object({
    aws_region    = string
    cidr          = string
    balancer_arn  = string
    balancer_port = number
    weight        = optional(number, 128) # 0 to 255; only with clients that have two regions equally near
  }))
  nullable = false

  validation {
    # Two networks overlap if they are the same as far as the wider one of them goes.
    condition = alltrue(flatten([for one, a in var.regions : [for other, b in var.regions : one == other || length(distinct([
      for cidr in [a.cidr, b.cidr] : cidrsubnet("${split("/", cidr)[0]}/${min([for c in [a.cidr, b.cidr] : tonumber(split("/", c)[1])]...)}", 0, 0)
    ])) == 2]]))
    error_message = "regions must have addresses (cidr) that do not overlap, such as 10.1.0.0/16 and 10.2.0.0/16: a link could not distinguish them."
  }
  validation {
    condition     = length(distinct([for r in values(var.regions) : r.balancer_port])) <= 1
    error_message = "regions must all have the same balancer_port: clients have one address and one port."
  }
  validation {
    condition     = contains(keys(var.regions), var.home.name)
    error_message = "regions must have the region home, too."
  }
}

variable "accelerator" {
  description = "One address for clients, which leads to the nearest region that is healthy (Global Accelerator)."
  type        = bool
  default     = true
  nullable    = false
}

variable "replicas" {
  description = "How many aggregators: as replicas of the submodule service of the module region."
  type        = object({ min = optional(number, 2), max = optional(number, 4), cpu_percent = optional(number, 50), decisions_per_second = optional(number, 20000) })
  default     = {}
  nullable    = false

  validation {
    condition     = var.replicas.min >= 1 && var.replicas.max >= var.replicas.min
    error_message = "replicas.min must be 1 or more, and replicas.max not less than that."
  }
}

variable "redis" {
  description = "Redis of the aggregators alone: a region's counters are others, under the same names."
  type = object({
    engine_version = optional(string, "8.0")
    node_type      = optional(string, "cache.t4g.small")
    shards         = optional(number, 3)
    fewer_shards   = optional(bool, false)
    replicas       = optional(number, 1)
    user_group_id  = string
    user           = optional(string, "weir")
  })
  nullable = false
}

variable "images" {
  description = "Images of weir-global, of Consul and of AWS's OpenTelemetry collector, each with a tag or digest."
  type        = object({ weir = string, consul = string, collector = optional(string) })
  nullable    = false
}

variable "secret" {
  description = "ARN in Secrets Manager of the aggregators' secret, in the region home: what weir admin bootstrap has made there."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[^: ]+$", var.secret))
    error_message = "secret must be the ARN of a secret in Secrets Manager, which weir admin bootstrap prints, such as arn:aws:secretsmanager:eu-central-1:123456789012:secret:weir/aggregator-AbCdEf."
  }
}

variable "key_secrets" {
  description = "The secret of weir-global has key-secrets, for rules with hash: true: what weir admin bootstrap has made there."
  type        = bool
  default     = false
  nullable    = false
}

variable "secrets_key_arns" {
  description = "Keys of your own that encrypt the secrets; empty: the key of Secrets Manager."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "admin_tokens" {
  description = "Text of the file of --admin-tokens, which has hashes of tokens and no token: who may use the admin API through a session of Systems Manager. Empty: the API is closed, and tasks take no sessions."
  type        = string
  default     = ""
  nullable    = false
}

variable "prometheus_workspace" {
  description = "ARN of a workspace in Amazon Managed Service for Prometheus that gets all metrics; empty: none."
  type        = string
  default     = ""
  nullable    = false
}

variable "alarm_actions" {
  description = "ARNs that alarms notify."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "tags" {
  description = "Tags of all resources and tasks."
  type        = map(string)
  default     = {}
  nullable    = false
}
