variable "workspace" {
  description = "ARN of the workspace in Amazon Managed Service for Prometheus; empty: nothing is scraped."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^(arn:[a-z-]+:aps:[a-z0-9-]+:[0-9]{12}:workspace/ws-[A-Za-z0-9-]+)?$", var.workspace))
    error_message = "prometheus_workspace must be the ARN of a workspace, such as arn:aws:aps:eu-central-1:123456789012:workspace/ws-1a2b, or empty."
  }
}

variable "job" {
  description = "weir-pop, weir-regional or weir-global."
  type        = string
  nullable    = false
}

variable "target" {
  description = "host:port of the metrics."
  type        = string
  nullable    = false
}

variable "path" {
  description = "Path of the metrics."
  type        = string
  default     = "/metrics"
  nullable    = false
}

variable "region" {
  description = "Label region of the metrics; empty: none, as for aggregators."
  type        = string
  nullable    = false
}

variable "instance" {
  description = "Label instance, one for each process."
  type        = string
  nullable    = false
}
