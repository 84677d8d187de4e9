variable "name" {
  description = "Begins the names of all resources."
  type        = string
  nullable    = false
}

variable "program" {
  description = "weir-regional or weir-global."
  type        = string
  nullable    = false

  validation {
    condition     = contains(["weir-regional", "weir-global"], var.program)
    error_message = "program must be weir-regional or weir-global."
  }
}

variable "network" {
  description = "VPC and private subnets of the tasks."
  type        = object({ vpc_id = string, private_subnet_ids = list(string) })
  nullable    = false
}

variable "images" {
  description = "Images of the program, of Consul and of AWS's OpenTelemetry collector, each with a tag or digest."
  type = object({
    weir      = string
    consul    = string
    collector = optional(string, "public.ecr.aws/aws-observability/aws-otel-collector:v0.49.0")
  })
  nullable = false

  validation {
    condition     = alltrue([for i in values(var.images) : can(regex("(@sha256:[0-9a-f]{64}|:[A-Za-z0-9._-]+)$", i)) && !endswith(i, ":latest")])
    error_message = "images must have a tag that is not latest, or a digest: a task that restarts must not get another version."
  }
}

variable "environment" {
  description = "regional_environment or global_environment of the module bootstrap."
  type        = map(string)
  nullable    = false
}

variable "consul_agent" {
  description = "consul_client_json of the module bootstrap."
  type        = string
  nullable    = false
}

variable "secret" {
  description = "ARN of the secret in Secrets Manager, a JSON object: its keys are file names in /etc/weir/secrets."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[^: ]+$", var.secret))
    error_message = "secret must be the ARN of a secret in Secrets Manager, which weir admin bootstrap prints, such as arn:aws:secretsmanager:eu-central-1:123456789012:secret:weir/eu/service-AbCdEf."
  }
}

variable "node" {
  description = "Begins the name of the agent's node in Consul, such as eu-service: its token may register no others."
  type        = string
  nullable    = false
}

variable "architecture" {
  description = "Processor of the tasks and of their images: ARM64 or X86_64."
  type        = string
  default     = "ARM64"
  nullable    = false

  validation {
    condition     = contains(["ARM64", "X86_64"], var.architecture)
    error_message = "architecture must be ARM64 or X86_64, as ECS has them."
  }
}

variable "after" {
  description = "Known when what must be updated before this service is: output rolled of another one."
  type        = string
  default     = ""
}

variable "task_policy" {
  description = "What the agent of a task may do, as a policy in JSON: find the servers."
  type        = string
  nullable    = false
}

variable "kms_key_arn" {
  description = "Key that encrypts the log."
  type        = string
  nullable    = false
}

variable "secrets_key_arns" {
  description = "Keys of your own that encrypt the secrets; empty: the key of Secrets Manager."
  type        = list(string)
  default     = []
  nullable    = false
}

variable "agent_security_group_id" {
  description = "Security group of Consul's agents."
  type        = string
  nullable    = false
}

variable "redis_security_group_id" {
  description = "Security group of Redis."
  type        = string
  nullable    = false
}

variable "callers" {
  description = "Who may call the QuotaService: security groups and networks, by a name."
  type = object({
    groups = optional(map(string), {})
    cidrs  = optional(map(string), {})
  })
  nullable = false
}

variable "calls" {
  description = "Networks with aggregators that the service calls, by a name."
  type        = map(string)
  default     = {}
  nullable    = false
}

variable "size" {
  description = "Processor units and MiB of a task, as Fargate has them."
  type        = object({ cpu = optional(number, 1024), memory = optional(number, 2048) })
  default     = {}
  nullable    = false

  validation {
    condition     = contains([512, 1024, 2048, 4096, 8192, 16384], var.size.cpu) && var.size.memory >= 2 * var.size.cpu && var.size.memory <= 8 * var.size.cpu
    error_message = "size.cpu must be 512, 1024, 2048, 4096, 8192 or 16384, and size.memory 2 to 8 times that: what Fargate has."
  }
}

variable "replicas" {
  description = "Tasks: at least and at most, and what autoscaling aims at. decisions_per_second is per task: wants of PoPs, or of regions."
  type = object({
    min                  = optional(number, 3)
    max                  = optional(number, 12)
    cpu_percent          = optional(number, 50)
    decisions_per_second = optional(number, 20000)
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.replicas.min >= 1 && var.replicas.max >= var.replicas.min
    error_message = "replicas.min must be 1 or more, and replicas.max not less than that."
  }
  validation {
    condition     = var.replicas.cpu_percent >= 10 && var.replicas.cpu_percent <= 90
    error_message = "replicas.cpu_percent must be 10 to 90."
  }
  validation {
    condition     = var.replicas.decisions_per_second >= 1
    error_message = "replicas.decisions_per_second must be 1 or more: with 0 there would always be replicas.max tasks."
  }
}

variable "admin_tokens" {
  description = "Text of the file of --admin-tokens, which has hashes of tokens and no token: who may use the admin API through a session of Systems Manager. Empty: the API is closed, and tasks take no sessions."
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = var.admin_tokens == "" || can([for t in yamldecode(var.admin_tokens).tokens : t.sha256])
    error_message = "admin_tokens must be the text of a file as docs/api.md has it, such as file(\"tokens.yaml\"); weir admin token prints its items."
  }
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
  description = "Tags of all resources, and of the tasks."
  type        = map(string)
  default     = {}
  nullable    = false
}
