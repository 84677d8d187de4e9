data "aws_partition" "current" {}

resource "aws_security_group" "balancer" {
  name        = "${var.name}-balancer"
  description = "Load balancer: clients"
  vpc_id      = var.network.vpc_id
  tags        = var.tags
}

resource "aws_security_group" "pop" {
  name        = "${var.name}-pop"
  description = "PoPs: from the load balancer alone"
  vpc_id      = var.network.vpc_id
  tags        = var.tags
}

# The one port that is open to everybody.
resource "aws_vpc_security_group_ingress_rule" "clients" {
  for_each = { ipv4 = "0.0.0.0/0" }

  security_group_id = aws_security_group.balancer.id
  cidr_ipv4         = each.value
  description       = "clients"
  ip_protocol       = "tcp"
  from_port         = var.pops.public_port
  to_port           = var.pops.public_port
  tags              = var.tags
}

resource "aws_vpc_security_group_egress_rule" "balancer" {
  for_each = { client = var.ports.client, health = var.ports.health }

  security_group_id            = aws_security_group.balancer.id
  referenced_security_group_id = aws_security_group.pop.id
  description                  = each.key
  ip_protocol                  = "tcp"
  from_port                    = each.value
  to_port                      = each.value
  tags                         = var.tags
}

resource "aws_vpc_security_group_ingress_rule" "pop" {
  for_each = { client = var.ports.client, health = var.ports.health }

  security_group_id            = aws_security_group.pop.id
  referenced_security_group_id = aws_security_group.balancer.id
  description                  = each.key
  ip_protocol                  = "tcp"
  from_port                    = each.value
  to_port                      = each.value
  tags                         = var.tags
}

resource "aws_vpc_security_group_egress_rule" "service" {
  security_group_id            = aws_security_group.pop.id
  referenced_security_group_id = var.service_security_group_id
  description                  = "weir-regional"
  ip_protocol                  = "tcp"
  from_port                    = 8080
  to_port                      = 8080
  tags                         = var.tags
}

resource "aws_vpc_security_group_egress_rule" "upstream" {
  for_each = { for p in var.upstream_ports : tostring(p) => p }

  security_group_id = aws_security_group.pop.id
  cidr_ipv4         = "0.0.0.0/0"
  description       = "what the PoPs protect"
  ip_protocol       = "tcp"
  from_port         = each.value
  to_port           = each.value
  tags              = var.tags
}

resource "aws_iam_role" "pop" {
  name_prefix        = "${var.name}-pop-"
  assume_role_policy = jsonencode({ Version = "2012-10-17", Statement = [{ Effect = "Allow", Action = "sts:AssumeRole", Principal = { Service = "ec2.amazonaws.com" } }] })
  tags               = var.tags
}

resource "aws_iam_role_policy" "pop" {
  name   = "pop"
  role   = aws_iam_role.pop.id
  policy = var.policy
}

resource "aws_iam_role_policy" "log" {
  name   = "log"
  role   = aws_iam_role.pop.id
  policy = jsonencode({ Version = "2012-10-17", Statement = [{ Effect = "Allow", Action = ["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"], Resource = "${aws_cloudwatch_log_group.pop.arn}:*" }] })
}

# No port is open for a shell: whoever looks at a PoP comes through a session of Systems Manager.
resource "aws_iam_role_policy_attachment" "sessions" {
  count = var.sessions ? 1 : 0

  role       = aws_iam_role.pop.name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/AmazonSSMManagedInstanceCore"
}

resource "aws_cloudwatch_log_group" "pop" {
  name              = "/weir/${var.name}/pop" # the module bootstrap has the name, too: machine.logs
  retention_in_days = 30
  kms_key_id        = var.kms_key_arn
  tags              = var.tags
}

resource "aws_iam_instance_profile" "pop" {
  name_prefix = "${var.name}-pop-"
  role        = aws_iam_role.pop.name
  tags        = var.tags
}

resource "aws_launch_template" "pop" {
  name_prefix            = "${var.name}-pop-"
  image_id               = var.image_id
  instance_type          = var.pops.instance_type
  user_data              = base64gzip(var.user_data)
  vpc_security_group_ids = [aws_security_group.pop.id, var.agent_security_group_id]
  update_default_version = true
  tags                   = var.tags

  iam_instance_profile {
    arn = aws_iam_instance_profile.pop.arn
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
}

# Envoy sees the addresses of clients: the balancer passes connections on, and TLS ends in Envoy.
resource "aws_lb" "this" {
  name_prefix                      = "weir-"
  load_balancer_type               = "network"
  internal                         = false
  subnets                          = var.network.public_subnet_ids
  security_groups                  = [aws_security_group.balancer.id]
  enable_cross_zone_load_balancing = true
  tags                             = var.tags
}

resource "aws_lb_target_group" "pop" {
  name_prefix          = "weir-"
  vpc_id               = var.network.vpc_id
  target_type          = "instance"
  port                 = var.ports.client
  protocol             = "TCP"
  preserve_client_ip   = "true"
  deregistration_delay = "60"
  tags                 = var.tags

  health_check {
    protocol            = "HTTP"
    path                = "/healthz"
    port                = tostring(var.ports.health)
    interval            = 10
    timeout             = 5
    healthy_threshold   = 2
    unhealthy_threshold = 3 # one slow answer takes no PoP out
  }
}

resource "aws_lb_listener" "clients" {
  load_balancer_arn = aws_lb.this.arn
  port              = var.pops.public_port
  protocol          = "TCP"
  tags              = var.tags

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.pop.arn
  }
}

# The balancer takes a PoP out that does not answer, and puts it back. It does not have it terminated: a
# flood would replace PoPs, one after the other, that only have too much to do.
resource "aws_autoscaling_group" "pop" {
  name_prefix               = "${var.name}-pop-"
  min_size                  = var.pops.min
  max_size                  = var.pops.max
  vpc_zone_identifier       = var.network.private_subnet_ids
  target_group_arns         = [aws_lb_target_group.pop.arn]
  health_check_type         = "EC2"
  health_check_grace_period = 180 # programs are fetched, and the filter is compiled
  default_instance_warmup   = 120
  depends_on                = [var.after]

  # The first apply fails when PoPs do not serve in time, and leaves them to be looked at.
  min_elb_capacity          = var.pops.min
  wait_for_capacity_timeout = "15m"

  launch_template {
    id      = aws_launch_template.pop.id
    version = aws_launch_template.pop.latest_version
  }
  # A new PoP serves before an old one ends. When fewer serve than should, the old template is back.
  instance_refresh {
    strategy = "Rolling"
    preferences {
      min_healthy_percentage = 100
      max_healthy_percentage = 110
      instance_warmup        = 300
      auto_rollback          = true
      alarm_specification {
        alarms = [aws_cloudwatch_metric_alarm.healthy.alarm_name]
      }
    }
  }
  dynamic "tag" {
    for_each = merge(var.tags, { Name = "${var.name}-pop" })
    content {
      key                 = tag.key
      value               = tag.value
      propagate_at_launch = true
    }
  }
}

resource "aws_autoscaling_policy" "cpu" {
  name                   = "cpu"
  autoscaling_group_name = aws_autoscaling_group.pop.name
  policy_type            = "TargetTrackingScaling"

  target_tracking_configuration {
    target_value = var.pops.cpu_percent
    predefined_metric_specification {
      predefined_metric_type = "ASGAverageCPUUtilization"
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "healthy" {
  alarm_name          = "${var.name}-pop-healthy"
  alarm_description   = "Fewer PoPs serve than should."
  namespace           = "AWS/NetworkELB"
  metric_name         = "HealthyHostCount"
  dimensions          = { LoadBalancer = aws_lb.this.arn_suffix, TargetGroup = aws_lb_target_group.pop.arn_suffix }
  statistic           = "Minimum"
  period              = 60
  evaluation_periods  = 3
  threshold           = var.pops.min
  comparison_operator = "LessThanThreshold"
  treat_missing_data  = "breaching"
  alarm_actions       = var.alarm_actions
  tags                = var.tags
}
