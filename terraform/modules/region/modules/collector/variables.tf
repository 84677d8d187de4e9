variable "service" {
  description = "Value of the dimension of all metrics: which program of which region."
  type        = string
  nullable    = false
}

variable "aws_region" {
  description = "Region of AWS that gets the metrics."
  type        = string
  nullable    = false
}

variable "log_group" {
  description = "Log group from which CloudWatch takes the metrics; it is there."
  type        = string
  nullable    = false
}

variable "job" {
  description = "weir-regional or weir-global."
  type        = string
  nullable    = false
}

variable "region" {
  description = "Name of the region; empty for aggregators."
  type        = string
  nullable    = false
}

variable "prometheus_workspace" {
  description = "As that of the module prometheus."
  type        = string
  nullable    = false
}
