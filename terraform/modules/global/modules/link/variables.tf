variable "name" {
  description = "Name of the link, such as eu-us."
  type        = string
  nullable    = false
}

variable "requester" {
  description = "Network of one side: output network of the module region."
  type        = object({ vpc_id = string, cidr = string, private_route_table_ids = list(string) })
  nullable    = false
}

variable "accepter" {
  description = "Network of the other side, and its region of AWS."
  type        = object({ vpc_id = string, cidr = string, private_route_table_ids = list(string), aws_region = string })
  nullable    = false

  validation {
    condition     = var.accepter.cidr != var.requester.cidr
    error_message = "Both sides have the same addresses: give each region a cidr of its own."
  }
}
