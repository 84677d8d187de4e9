data "aws_partition" "current" {}

# Every machine and task with an agent is in the group of agents; servers are in both.
resource "aws_security_group" "agent" {
  name        = "${var.name}-consul-agent"
  description = "Consul agents: gossip within the region"
  vpc_id      = var.vpc_id
  tags        = var.tags
}

resource "aws_security_group" "server" {
  name        = "${var.name}-consul-server"
  description = "Consul servers: calls of agents, and other regions"
  vpc_id      = var.vpc_id
  tags        = var.tags
}

locals {
  # Within the region: who calls whom, and where. Each has a rule at either end.
  within = merge(
    { for p in ["tcp", "udp"] : "gossip ${p}" => { from = aws_security_group.agent.id, to = aws_security_group.agent.id, protocol = p, port = 8301 } },
    { for p in ["tcp", "udp"] : "gossip of servers ${p}" => { from = aws_security_group.server.id, to = aws_security_group.server.id, protocol = p, port = 8302 } },
    { "calls of servers" = { from = aws_security_group.agent.id, to = aws_security_group.server.id, protocol = "tcp", port = 8300 } },
  )
  wan = merge([for cidr in var.peer_cidrs : {
    "rpc ${cidr}"        = { cidr = cidr, port = 8300, protocol = "tcp" }
    "gossip tcp ${cidr}" = { cidr = cidr, port = 8302, protocol = "tcp" }
    "gossip udp ${cidr}" = { cidr = cidr, port = 8302, protocol = "udp" }
  }]...)
}

resource "aws_vpc_security_group_ingress_rule" "within" {
  for_each = local.within

  security_group_id            = each.value.to
  referenced_security_group_id = each.value.from
  description                  = each.key
  ip_protocol                  = each.value.protocol
  from_port                    = each.value.port
  to_port                      = each.value.port
  tags                         = var.tags
}

resource "aws_vpc_security_group_egress_rule" "within" {
  for_each = local.within

  security_group_id            = each.value.from
  referenced_security_group_id = each.value.to
  description                  = each.key
  ip_protocol                  = each.value.protocol
  from_port                    = each.value.port
  to_port                      = each.value.port
  tags                         = var.tags
}

resource "aws_vpc_security_group_ingress_rule" "wan" {
  for_each = local.wan

  security_group_id = aws_security_group.server.id
  cidr_ipv4         = each.value.cidr
  description       = "other region: ${each.key}"
  ip_protocol       = each.value.protocol
  from_port         = each.value.port
  to_port           = each.value.port
  tags              = var.tags
}

resource "aws_vpc_security_group_egress_rule" "wan" {
  for_each = local.wan

  security_group_id = aws_security_group.server.id
  cidr_ipv4         = each.value.cidr
  description       = "other region: ${each.key}"
  ip_protocol       = each.value.protocol
  from_port         = each.value.port
  to_port           = each.value.port
  tags              = var.tags
}

resource "aws_vpc_security_group_egress_rule" "https" {
  security_group_id = aws_security_group.agent.id
  cidr_ipv4         = "0.0.0.0/0"
  description       = "interfaces of AWS: programs, secrets, logs"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
  tags              = var.tags
}

resource "aws_iam_role" "server" {
  name_prefix        = "${var.name}-consul-"
  assume_role_policy = jsonencode({ Version = "2012-10-17", Statement = [{ Effect = "Allow", Action = "sts:AssumeRole", Principal = { Service = "ec2.amazonaws.com" } }] })
  tags               = var.tags
}

resource "aws_iam_role_policy" "server" {
  name   = "consul"
  role   = aws_iam_role.server.id
  policy = var.policy
}

resource "aws_iam_role_policy" "log" {
  name   = "log"
  role   = aws_iam_role.server.id
  policy = jsonencode({ Version = "2012-10-17", Statement = [{ Effect = "Allow", Action = ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"], Resource = "${aws_cloudwatch_log_group.server.arn}:*" }] })
}

# Servers write snapshots and read none: who restores one has rights of their own.
resource "aws_iam_role_policy" "snapshots" {
  count = var.snapshots == "" ? 0 : 1

  name   = "snapshots"
  role   = aws_iam_role.server.id
  policy = jsonencode({ Version = "2012-10-17", Statement = [{ Effect = "Allow", Action = ["s3:PutObject"], Resource = "arn:${data.aws_partition.current.partition}:s3:::${trimsuffix(trimprefix(var.snapshots, "s3://"), "/")}/*" }] })
}

resource "aws_cloudwatch_log_group" "server" {
  name              = "/weir/${var.name}/consul" # the module bootstrap has the name, too: machine.logs
  retention_in_days = 30
  kms_key_id        = var.kms_key_arn
  tags              = var.tags
}

# Consul's API is on loopback, so whoever applies rules comes through a session of Systems Manager.
resource "aws_iam_role_policy_attachment" "sessions" {
  count = var.sessions ? 1 : 0

  role       = aws_iam_role.server.name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/AmazonSSMManagedInstanceCore"
}

resource "aws_iam_instance_profile" "server" {
  name_prefix = "${var.name}-consul-"
  role        = aws_iam_role.server.name
  tags        = var.tags
}

resource "aws_launch_template" "server" {
  name_prefix            = "${var.name}-consul-"
  image_id               = var.image_id
  instance_type          = var.instance_type
  user_data              = base64gzip(var.user_data)
  vpc_security_group_ids = [aws_security_group.agent.id, aws_security_group.server.id]
  update_default_version = true
  tags                   = var.tags

  iam_instance_profile {
    arn = aws_iam_instance_profile.server.arn
  }
  dynamic "tag_specifications" {
    for_each = length(var.tags) > 0 ? ["volume"] : []
    content {
      resource_type = tag_specifications.value
      tags          = var.tags
    }
  }
  metadata_options {
    http_endpoint = "enabled"
    http_tokens   = "required"
  }
  block_device_mappings {
    device_name = "/dev/xvda"
    ebs {
      volume_size = 20
      volume_type = "gp3"
      encrypted   = true
      kms_key_id  = var.kms_key_arn
    }
  }
  # Consul's data. It ends with the machine: a new server gets the data from the others.
  block_device_mappings {
    device_name = "/dev/sdf" # machine.volume of the module bootstrap
    ebs {
      volume_size = 20
      volume_type = "gp3"
      encrypted   = true
      kms_key_id  = var.kms_key_arn
    }
  }
}

# Without instance_refresh: it would replace the next server because a machine runs, before the new
# one has Consul's data. README.md has how to replace them. For the same reason nothing moves a server to
# another zone (AZRebalance), and none has a longest life.
resource "aws_autoscaling_group" "server" {
  name_prefix         = "${var.name}-consul-"
  min_size            = var.servers
  max_size            = var.servers
  desired_capacity    = var.servers
  vpc_zone_identifier = var.subnet_ids
  suspended_processes = ["AZRebalance"]

  launch_template {
    id      = aws_launch_template.server.id
    version = aws_launch_template.server.latest_version
  }
  dynamic "tag" {
    for_each = merge(var.tags, { weir-consul-server = var.name, Name = "${var.name}-consul" })
    content {
      key                 = tag.key
      value               = tag.value
      propagate_at_launch = true
    }
  }
}
