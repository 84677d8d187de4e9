data "aws_region" "current" {}

# Without local zones, which have no NAT gateways. What needs an opt-in is one, or such. Their state is not
# asked: a zone that fails stays, so that no apply moves its subnets.
data "aws_availability_zones" "available" {
  filter {
    name   = "zone-type"
    values = ["availability-zone"]
  }
  lifecycle {
    postcondition {
      condition     = length(var.zone_names) > 0 || length(self.names) >= var.zones
      error_message = "zones is ${var.zones}, and ${data.aws_region.current.region} has ${length(self.names)} availability zones for this account: make zones less."
    }
    postcondition {
      condition     = alltrue([for name in var.zone_names : startswith(name, data.aws_region.current.region)])
      error_message = "zone_names must be availability zones of ${data.aws_region.current.region}, such as ${join(", ", self.names)}."
    }
  }
}

locals {
  names = length(var.zone_names) > 0 ? var.zone_names : slice(sort(data.aws_availability_zones.available.names), 0, min(var.zones, length(data.aws_availability_zones.available.names)))

  # By the letter of a zone, so that another order or one more at the end moves no subnet.
  zones = { for name in local.names : name => index(split("", "abcdefgh"), substr(name, -1, 1)) }
}

resource "aws_vpc" "this" {
  cidr_block           = var.cidr
  enable_dns_support   = true
  enable_dns_hostnames = true
  tags                 = merge(var.tags, { Name = var.name })
}

resource "aws_internet_gateway" "this" {
  vpc_id = aws_vpc.this.id
  tags   = merge(var.tags, { Name = var.name })
}

resource "aws_subnet" "public" {
  for_each = local.zones

  vpc_id            = aws_vpc.this.id
  availability_zone = each.key
  cidr_block        = cidrsubnet(var.cidr, 4, each.value)
  tags              = merge(var.tags, { Name = "${var.name}-public-${each.key}" })
}

resource "aws_subnet" "private" {
  for_each = local.zones

  vpc_id            = aws_vpc.this.id
  availability_zone = each.key
  cidr_block        = cidrsubnet(var.cidr, 4, each.value + 8)
  tags              = merge(var.tags, { Name = "${var.name}-private-${each.key}" })
}

resource "aws_route_table" "public" {
  vpc_id = aws_vpc.this.id
  tags   = merge(var.tags, { Name = "${var.name}-public" })
}

resource "aws_route" "internet" {
  route_table_id         = aws_route_table.public.id
  destination_cidr_block = "0.0.0.0/0"
  gateway_id             = aws_internet_gateway.this.id
}

resource "aws_route_table_association" "public" {
  for_each = aws_subnet.public

  subnet_id      = each.value.id
  route_table_id = aws_route_table.public.id
}

# One gateway per zone: a zone that fails takes none of the others along.
resource "aws_eip" "nat" {
  for_each = aws_subnet.public

  domain     = "vpc"
  tags       = merge(var.tags, { Name = "${var.name}-${each.key}" })
  depends_on = [aws_internet_gateway.this] # AWS demands it, and no value here shows it
}

resource "aws_nat_gateway" "this" {
  for_each = aws_subnet.public

  subnet_id     = each.value.id
  allocation_id = aws_eip.nat[each.key].id
  tags          = merge(var.tags, { Name = "${var.name}-${each.key}" })
  depends_on    = [aws_internet_gateway.this]
}

resource "aws_route_table" "private" {
  for_each = aws_subnet.private

  vpc_id = aws_vpc.this.id
  tags   = merge(var.tags, { Name = "${var.name}-private-${each.key}" })
}

resource "aws_route" "nat" {
  for_each = aws_route_table.private

  route_table_id         = each.value.id
  destination_cidr_block = "0.0.0.0/0"
  nat_gateway_id         = aws_nat_gateway.this[each.key].id
}

resource "aws_route_table_association" "private" {
  for_each = aws_subnet.private

  subnet_id      = each.value.id
  route_table_id = aws_route_table.private[each.key].id
}

# Programs of machines come from S3, and images from layers there: not through the NAT gateways.
resource "aws_vpc_endpoint" "s3" {
  vpc_id          = aws_vpc.this.id
  service_name    = "com.amazonaws.${data.aws_region.current.region}.s3"
  route_table_ids = [for t in aws_route_table.private : t.id]
  tags            = merge(var.tags, { Name = "${var.name}-s3" })
}
