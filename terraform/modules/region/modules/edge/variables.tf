variable "name" {
  description = "Begins the names of all resources."
  type        = string
  nullable    = false
}

variable "network" {
  description = "VPC, public subnets of the load balancer, private subnets of the PoPs."
  type        = object({ vpc_id = string, public_subnet_ids = list(string), private_subnet_ids = list(string) })
  nullable    = false
}

variable "pops" {
  description = "PoPs: at least and at most, machine, and the port for clients at the load balancer."
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

variable "ports" {
  description = "Ports of a PoP: for clients, and for the health check of the load balancer."
  type        = object({ client = number, health = number })
  nullable    = false
}

variable "upstream_ports" {
  description = "Ports of what the PoPs protect, which they may call anywhere."
  type        = set(number)
  nullable    = false
}

variable "image_id" {
  description = "Machine image: Amazon Linux 2023, for the processor of pops.instance_type."
  type        = string
  nullable    = false
}

variable "user_data" {
  description = "cloud-init of a PoP: pop_user_data of the module bootstrap."
  type        = string
  nullable    = false
}

variable "policy" {
  description = "What a PoP may do, as a policy in JSON."
  type        = string
  nullable    = false
}

variable "sessions" {
  description = "Sessions of Systems Manager to the PoPs. IAM decides who may start one; it has the rights of an administrator of the machine."
  type        = bool
  default     = true
  nullable    = false
}

variable "kms_key_arn" {
  description = "Key that encrypts disks and the log."
  type        = string
  nullable    = false
}

variable "agent_security_group_id" {
  description = "Security group of Consul's agents."
  type        = string
  nullable    = false
}

variable "service_security_group_id" {
  description = "Security group of weir-regional."
  type        = string
  nullable    = false
}

variable "alarm_actions" {
  description = "ARNs that alarms notify."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "after" {
  description = "Known when what must be updated before PoPs is: output rolled of the submodule service."
  type        = string
  default     = ""
}

variable "tags" {
  description = "Tags of every resource, and of machines and their volumes."
  type        = map(string)
  default     = {}
  nullable    = false
}
