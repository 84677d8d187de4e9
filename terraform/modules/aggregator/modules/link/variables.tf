variable "name" {
  description = "Name of the link, such as eu-us."
  type        = string
  nullable    = false
}

variable "requester" {
  description = "Network of one side: output network of the module region."
  type        = object({ vpc_id = string, cidr = string, private_route_table_ids = map(string) })
  nullable    = false
}

variable "accepter" {
  description = "Network of the other side, and its region of AWS."
  type        = object({ vpc_id = string, cidr = string, private_route_table_ids = map(string), aws_region = string })
  nullable    = false

  validation {
    # Two networks overlap if they are the same as far as the wider one of them goes.
    condition = can(cidrnetmask(var.accepter.cidr)) && can(cidrnetmask(var.requester.cidr)) && length(distinct([
      for cidr in [var.accepter.cidr, var.requester.cidr] :
      cidrsubnet("${split("/", cidr)[0]}/${min([for c in [var.accepter.cidr, var.requester.cidr] : tonumber(split("/", c)[1])]...)}", 0, 0)
    ])) == 2
    error_message = "The addresses of both sides overlap: give each region a cidr of its own, such as 10.1.0.0/16 and 10.2.0.0/16."
  }
}

variable "tags" {
  description = "Tags of both sides of the connection."
  type        = map(string)
  default     = {}
  nullable    = false
}
