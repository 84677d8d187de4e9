variable "name" {
  description = "Name of the cluster: 1 to 40 of a-z, 0-9 and -."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,38}[a-z0-9]$", var.name))
    error_message = "name must be 2 to 40 of a-z, 0-9 and -, and begin with a letter."
  }
}

variable "vpc_id" {
  description = "The VPC."
  type        = string
  nullable    = false
}

variable "subnet_ids" {
  description = "Private subnets, in two zones or more."
  type        = list(string)
  nullable    = false
}

variable "engine_version" {
  description = "Version of Valkey. The parameter group follows its major version."
  type        = string
  default     = "8.0"
  nullable    = false

  validation {
    condition     = can(regex("^([89]|[1-9][0-9])\\.[0-9]+$", var.engine_version))
    error_message = "engine_version must be a version of Valkey from 8.0 on, such as 8.0: an older one was not tested."
  }
}

variable "node_type" {
  description = "Size of a node. One core of a node decides; add shards when it is half used at peak."
  type        = string
  default     = "cache.r7g.large"
  nullable    = false

  validation {
    condition     = can(regex("^cache\\.(t(3|4g)\\.(micro|small|medium)|[mr]5\\.(large|xlarge|2xlarge|4xlarge|12xlarge|24xlarge)|([mr][67]g|c7gn)\\.(large|xlarge|2xlarge|4xlarge|8xlarge|12xlarge|16xlarge))$", var.node_type))
    error_message = "node_type must be a size of ElastiCache that can do cluster mode with TLS, such as cache.r7g.large: t3 and t4g go from micro to medium, m5 and r5 from large to 24xlarge, m6g, m7g, r6g, r7g and c7gn from large to 16xlarge. Older families such as t1 and m1 cannot."
  }
}

variable "shards" {
  description = "Masters, an odd number from 3 on: a majority of them elects a new one."
  type        = number
  default     = 3
  nullable    = false

  validation {
    condition     = var.shards >= 3 && var.shards <= 499 && var.shards % 2 == 1
    error_message = "shards must be an odd number from 3 to 499: a majority of the masters elects a new one."
  }
}

variable "fewer_shards" {
  description = "An apply may lower shards."
  type        = bool
  default     = false
  nullable    = false
}

variable "replicas" {
  description = "Replicas of each master, 0 to 5. With 0 a lost node loses its counters: at most one more limit per key in that period."
  type        = number
  default     = 1
  nullable    = false

  validation {
    condition     = var.replicas >= 0 && var.replicas <= 5 && floor(var.replicas) == var.replicas
    error_message = "replicas must be 0 to 5."
  }
}

variable "kms_key_arn" {
  description = "Key that encrypts what is on disk."
  type        = string
  nullable    = false
}

variable "user_group_id" {
  description = "RBAC user group that may use the cluster. It is made outside of Terraform, because a password here would be in the state."
  type        = string
  nullable    = false

  validation {
    condition     = var.user_group_id != ""
    error_message = "user_group_id is empty: without a user group everybody who reaches the port could use Redis. README.md of the module region describes how to make one."
  }
}

variable "clients" {
  description = "Security groups of the clients, by a name that is known before they are created."
  type        = map(string)
  nullable    = false
}

variable "alarm_actions" {
  description = "ARNs that alarms notify."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "tags" {
  description = "Tags of all resources."
  type        = map(string)
  default     = {}
  nullable    = false
}
