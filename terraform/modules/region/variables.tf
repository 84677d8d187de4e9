variable "name" {
  description = "Name of the region in the rules, in certificates and in Consul, such as eu. Resources are named weir-NAME."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$", var.name))
    error_message = "name must fit DNS and the names of AWS: 1 to 20 of a-z, 0-9 and -, such as eu."
  }
  validation {
    condition     = var.name != "aggregator"
    error_message = "name must not be global: the aggregators' resources are named weir-global. Name the region by where it is, such as eu."
  }
}

variable "aws_region" {
  description = "Region of AWS in which this must be: it is checked against that of the provider that the module gets."
  type        = string
  nullable    = false
}

variable "zones" {
  description = "In how many availability zones a new network is; not used with network."
  type        = number
  default     = 3
  nullable    = false
}

variable "zone_names" {
  description = "Availability zones of a new network by name, where the first are not those that you want; empty: as many as zones states."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "cidr" {
  description = "Addresses of a new network; not used with network. Those of linked regions must not overlap."
  type        = string
  default     = "10.1.0.0/16"
  nullable    = false
}

variable "network" {
  description = "Bring your own: a VPC with DNS host names, private subnets that reach the interfaces of AWS, and public ones. Null: a new one."
  type = object({
    vpc_id                  = string
    cidr                    = string
    public_subnet_ids       = list(string)
    private_subnet_ids      = list(string)
    private_route_table_ids = optional(map(string), {}) # by a name each, such as that of the zone
  })
  default = null
}

variable "peers" {
  description = "Networks of the other regions, by their name: Consul's servers and aggregators there are called."
  type        = map(string)
  default     = {}
  nullable    = false

  validation {
    condition     = alltrue([for cidr in values(var.peers) : can(cidrnetmask(cidr)) && cidr != "0.0.0.0/0"])
    error_message = "peers must map names of regions to IPv4 ranges, such as { us = \"10.2.0.0/16\" }."
  }
}

variable "primary" {
  description = "Name of the region with the aggregators and the rules; empty: this one."
  type        = string
  default     = ""
  nullable    = false
}

variable "consul_wan" {
  description = "Consul's servers in other regions: by their tag (provider=aws region=eu-central-1 tag_key=weir-consul-server tag_value=weir-eu), or names or addresses. Those of the primary suffice."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "pop" {
  description = "The Envoys: as pop of the module bootstrap. TLS of clients ends here; client_tls names files among the secrets of the PoP."
  type = object({
    upstreams         = list(string)
    upstream_tls      = optional(object({ ca = string, name = string }))
    client_tls        = optional(object({ certificate = string, key = string }), { certificate = "/etc/weir/secrets/client-cert.pem", key = "/etc/weir/secrets/client-key.pem" })
    trusted_hops      = optional(number, 0)
    untrusted_headers = optional(list(string), ["x-user-id", "x-tier", "x-cost"])
    labels            = optional(map(string), {})
    before_rules      = optional(string, "allow")
    filter            = optional(string, "wasm")
    max_heap_bytes    = optional(number, 1073741824)
  })
  nullable = false
}

variable "pops" {
  description = "How many PoPs, on which machines: as pops of the submodule edge."
  type = object({
    min           = optional(number, 3)
    max           = optional(number, 12)
    cpu_percent   = optional(number, 50)
    instance_type = optional(string) # c7g.large, or c7i.large with X86_64
    public_port   = optional(number, 443)
    sessions      = optional(bool, true)
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.pops.instance_type == null || can(regex(local.graviton, var.pops.instance_type)) == (var.architecture == "ARM64")
    error_message = "pops.instance_type has another processor than architecture: c7g.large is ARM64, and c7i.large is X86_64."
  }

  validation {
    condition     = var.pops.min >= 1 && var.pops.max >= var.pops.min
    error_message = "pops.min must be 1 or more, and pops.max not less than that: a region without a PoP serves nobody."
  }
}

variable "replicas" {
  description = "How many replicas of weir-regional: as replicas of the submodule service."
  type = object({
    min                  = optional(number, 3)
    max                  = optional(number, 12)
    cpu_percent          = optional(number, 50)
    decisions_per_second = optional(number, 20000)
  })
  default  = {}
  nullable = false
}

variable "size" {
  description = "Size of a replica: as size of the submodule service."
  type        = object({ cpu = optional(number, 1024), memory = optional(number, 2048) })
  default     = {}
  nullable    = false
}

variable "architecture" {
  description = "Processor of machines and tasks: ARM64 or X86_64. Programs, images and image_id are for it."
  type        = string
  default     = "ARM64"
  nullable    = false

  validation {
    condition     = contains(["ARM64", "X86_64"], var.architecture)
    error_message = "architecture must be ARM64 or X86_64, as ECS has them."
  }
}

variable "redis" {
  description = "Redis: version, node type, masters, whether an apply may lower their number, replicas of each, and the RBAC user group with its user."
  type = object({
    engine_version = optional(string, "8.0")
    node_type      = optional(string, "cache.r7g.large")
    shards         = optional(number, 3)
    fewer_shards   = optional(bool, false)
    replicas       = optional(number, 1)
    user_group_id  = string
    user           = optional(string, "weir")
  })
  nullable = false

  validation {
    condition     = var.redis.user_group_id != ""
    error_message = "redis.user_group_id is empty: without a user group everybody who reaches the port could use Redis. weir admin bootstrap makes one."
  }
}

variable "consul" {
  description = "Consul's servers. Without sessions nobody applies rules with Systems Manager; snapshots is s3://BUCKET/PREFIX, in the region with the rules."
  type        = object({ servers = optional(number, 3), instance_type = optional(string), sessions = optional(bool, true), snapshots = optional(string, "") })
  default     = {}
  nullable    = false

  validation {
    condition     = var.consul.instance_type == null || can(regex(local.graviton, var.consul.instance_type)) == (var.architecture == "ARM64")
    error_message = "consul.instance_type has another processor than architecture: t4g.small is ARM64, and t3.small is X86_64."
  }
}

variable "images" {
  description = "Images of weir-regional, of Consul and of AWS's OpenTelemetry collector, each with a tag or digest."
  type        = object({ weir = string, consul = string, collector = optional(string) })
  nullable    = false
}

variable "programs" {
  description = "Programs of machines in S3, each with its SHA-256: envoy, consul, weir, and weir.wasm (weir.so with pop.filter = native), for architecture."
  type        = map(object({ uri = string, sha256 = string }))
  nullable    = false

  validation {
    condition     = length(setsubtract(["envoy", "consul", "weir", var.pop.filter == "native" ? "weir.so" : "weir.wasm"], keys(var.programs))) == 0
    error_message = "programs must have envoy, consul, weir, and weir.wasm, or with pop.filter = native weir.so."
  }
}

variable "secrets" {
  description = "ARNs in Secrets Manager, one for each role: what weir admin bootstrap has made there."
  type        = object({ pop = string, consul = string, service = string })
  nullable    = false

  validation {
    condition     = alltrue([for arn in values(var.secrets) : can(regex("^arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[^: ]+$", arn))])
    error_message = "secrets must be ARNs of secrets in Secrets Manager, which weir admin bootstrap prints, such as arn:aws:secretsmanager:eu-central-1:123456789012:secret:weir/eu/pop-AbCdEf."
  }
  validation {
    condition     = alltrue([for arn in values(var.secrets) : try(split(":", arn)[3] == var.aws_region, true)])
    error_message = "secrets must be in aws_region: a machine asks Secrets Manager of its own region."
  }
}

variable "key_secrets" {
  description = "The secret of weir-regional has key-secrets, for rules with hash: true: what weir admin bootstrap has made there."
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

variable "image_id" {
  description = "Machine image: Amazon Linux 2023 for architecture. README.md has how to find one; another one replaces PoPs."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^ami-[0-9a-f]+$", var.image_id))
    error_message = "image_id must be the id of a machine image, such as ami-0123456789abcdef0. README.md of the module region has how to find one."
  }
}

variable "after" {
  description = "Known when what must be updated before this region is: output rolled of the module aggregator. Empty: nothing must."
  type        = string
  default     = ""
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
  description = "Tags of all resources, machines and tasks."
  type        = map(string)
  default     = {}
  nullable    = false
}
