variable "name" {
  description = "Begins the names of all resources, and is the tag by which agents find the servers."
  type        = string
  nullable    = false
}

variable "vpc_id" {
  description = "The VPC."
  type        = string
  nullable    = false
}

variable "subnet_ids" {
  description = "Private subnets, in three zones where there are three."
  type        = list(string)
  nullable    = false
}

variable "servers" {
  description = "Number of servers: 3 or 5."
  type        = number
  default     = 3
  nullable    = false

  validation {
    condition     = contains([3, 5], var.servers)
    error_message = "servers must be 3 or 5: an even number tolerates no more faults than one less."
  }
}

variable "instance_type" {
  description = "Size of a server."
  type        = string
  default     = "t4g.small"
  nullable    = false
}

variable "image_id" {
  description = "Machine image: Amazon Linux 2023, for the processor of instance_type."
  type        = string
  nullable    = false
}

variable "user_data" {
  description = "cloud-init of a server: consul_user_data of the module bootstrap."
  type        = string
  nullable    = false
}

variable "policy" {
  description = "What a server may do, as a policy in JSON."
  type        = string
  nullable    = false
}

variable "sessions" {
  description = "Sessions of Systems Manager to the servers, through which rules are applied. IAM decides who may start one; it has the rights of an administrator of the server."
  type        = bool
  default     = true
  nullable    = false
}

variable "snapshots" {
  description = "Where servers save snapshots every hour, as s3://BUCKET/PREFIX; as machine.snapshots of the module bootstrap. Empty: none."
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = can(regex("^(s3://[a-z0-9][a-z0-9.-]+/[A-Za-z0-9._/-]+)?$", var.snapshots))
    error_message = "snapshots must be s3://BUCKET/PREFIX, such as s3://backups/weir, or empty."
  }
}

variable "kms_key_arn" {
  description = "Key that encrypts disks and the log."
  type        = string
  nullable    = false
}

variable "peer_cidrs" {
  description = "Networks of the other regions, whose servers join over WAN."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "tags" {
  description = "Tags of every resource, and of machines and their volumes."
  type        = map(string)
  default     = {}
  nullable    = false
}
