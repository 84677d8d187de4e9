variable "name" {
  description = "Name of the region in the rules, in certificates and in Consul, such as eu. Resources are named weir-NAME."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z]([a-z0-9-]{0,18}[a-z0-9])?$", var.name))
    error_message = "name must fit DNS and the names of AWS: 1 to 20 of a-z, 0-9 and -, such as eu."
  }
  validation {
    condition     = var.name != "global"
    error_message = "name must not be global: the aggregators' resources are named weir-global. Name the region by where it is, such as eu."
  }
}

variable "aws_region" {
  description = "Region of AWS in which this must be: it is checked against that of the provider that the module gets."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^(af-south-1|ap-east-[12]|ap-northeast-[1-3]|ap-south-[12]|ap-southeast-[1-7]|ca-(central|west)-1|cn-north(west)?-1|eu-central-[12]|eu-north-1|eu-south-[12]|eu-west-[1-3]|il-central-1|me-(central|south)-1|mx-central-1|sa-east-1|us-(east|west)-[12]|us-gov-(east|west)-1)$", var.aws_region))
    error_message = "aws_region must be a region of AWS, such as eu-central-1. One that is newer than this module is to be added to the list in variables.tf."
  }
}

variable "zones" {
  description = "Availability zones of a new network; not used with network."
  type        = list(string)
  default     = []
  nullable    = false

  validation {
    condition     = var.network != null || contains([2, 3], length(var.zones))
    error_message = "zones must be two or three availability zones of the region, or network a network that is there."
  }
  validation {
    condition     = alltrue([for zone in var.zones : startswith(zone, var.aws_region)])
    error_message = "zones must be of aws_region: those of eu-central-1 are eu-central-1a, eu-central-1b and eu-central-1c."
  }
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
    private_route_table_ids = optional(list(string), [])
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
    before_rules      = optional(string, "allow")
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
    instance_type = optional(string, "c7g.large")
    public_port   = optional(number, 443)
  })
  default  = {}
  nullable = false

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

variable "redis" {
  description = "Redis: node type, masters, replicas of each, and the RBAC user group with its user."
  type = object({
    node_type     = optional(string, "cache.r7g.large")
    shards        = optional(number, 3)
    replicas      = optional(number, 1)
    user_group_id = string
    user          = optional(string, "weir")
  })
  nullable = false

  validation {
    condition     = var.redis.user_group_id != ""
    error_message = "redis.user_group_id is empty: without a user group everybody who reaches the port could use Redis. README.md of the module region describes how to make one."
  }
}

variable "consul" {
  description = "Consul's servers. Without sessions nobody applies rules with Systems Manager."
  type        = object({ servers = optional(number, 3), instance_type = optional(string, "t4g.small"), sessions = optional(bool, true) })
  default     = {}
  nullable    = false
}

variable "images" {
  description = "Images of weir-regional, of Consul and of AWS's OpenTelemetry collector, each with a tag or digest."
  type        = object({ weir = string, consul = string, collector = optional(string) })
  nullable    = false
}

variable "programs" {
  description = "Programs of machines in S3, each with its SHA-256: envoy, consul and weir.wasm, for the processor of the machines."
  type        = map(object({ uri = string, sha256 = string }))
  nullable    = false

  validation {
    condition     = length(setsubtract(["envoy", "consul", "weir.wasm"], keys(var.programs))) == 0
    error_message = "programs must have envoy, consul and weir.wasm."
  }
}

variable "secrets" {
  description = "ARNs in Secrets Manager by file name, for each role. README.md of the module bootstrap has what each file is."
  type = object({
    pop     = map(string)
    consul  = map(string)
    service = map(string)
  })
  nullable = false

  validation {
    condition     = length(setsubtract(["ca.pem", "cert.pem", "key.pem", "client-cert.pem", "client-key.pem", "consul.json", "consul-ca.pem", "consul-cert.pem", "consul-key.pem"], keys(var.secrets.pop))) == 0
    error_message = "secrets.pop must have ca.pem, cert.pem, key.pem, client-cert.pem, client-key.pem, consul.json, consul-ca.pem, consul-cert.pem and consul-key.pem."
  }
  validation {
    condition     = length(setsubtract(["consul.json", "consul-ca.pem", "consul-cert.pem", "consul-key.pem"], keys(var.secrets.consul))) == 0
    error_message = "secrets.consul must have consul.json, consul-ca.pem, consul-cert.pem and consul-key.pem."
  }
  validation {
    condition     = length(setsubtract(["ca.pem", "cert.pem", "key.pem", "consul.json", "consul-ca.pem", "consul-cert.pem", "consul-key.pem", "consul-token", "redis-password"], keys(var.secrets.service))) == 0
    error_message = "secrets.service must have ca.pem, cert.pem, key.pem, consul.json, consul-ca.pem, consul-cert.pem, consul-key.pem, consul-token and redis-password."
  }
}

variable "secrets_key_arns" {
  description = "Keys of your own that encrypt the secrets; empty: the key of Secrets Manager."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "image_id" {
  description = "Machine image: Amazon Linux 2023 for arm64 or what pops.instance_type and consul.instance_type are. Empty: the newest one for arm64, at each apply."
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
