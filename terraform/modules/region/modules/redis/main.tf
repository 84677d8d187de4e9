resource "aws_elasticache_subnet_group" "this" {
  name       = var.name
  subnet_ids = var.subnet_ids
  tags       = var.tags
}

resource "aws_security_group" "this" {
  name        = "${var.name}-redis"
  description = "Redis: from the service alone"
  vpc_id      = var.vpc_id
  tags        = var.tags
}

resource "aws_vpc_security_group_ingress_rule" "clients" {
  for_each = var.clients

  security_group_id            = aws_security_group.this.id
  referenced_security_group_id = each.value
  description                  = each.key
  ip_protocol                  = "tcp"
  from_port                    = 6379
  to_port                      = 6379
  tags                         = var.tags
}

# docs/redis.md has the reason for each. Its name has the version: the group of the next one is
# there before that of the last is removed, which a cluster still uses until then.
resource "aws_elasticache_parameter_group" "this" {
  name        = "${var.name}-${local.family}"
  family      = local.family
  description = "Counters of Weir"
  tags        = var.tags

  dynamic "parameter" {
    for_each = {
      cluster-enabled  = "yes"
      maxmemory-policy = "noeviction"
      timeout          = "0"
      tcp-keepalive    = "60"
    }
    content {
      name  = parameter.key
      value = parameter.value
    }
  }
  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_elasticache_replication_group" "this" {
  replication_group_id       = var.name
  description                = "Counters of Weir"
  engine                     = "valkey"
  engine_version             = var.engine_version
  node_type                  = var.node_type
  port                       = 6379
  parameter_group_name       = aws_elasticache_parameter_group.this.name
  cluster_mode               = "enabled"
  num_node_groups            = var.shards
  replicas_per_node_group    = var.replicas
  automatic_failover_enabled = true # cluster mode demands it, with 0 replicas too
  multi_az_enabled           = var.replicas > 0
  subnet_group_name          = aws_elasticache_subnet_group.this.name
  security_group_ids         = [aws_security_group.this.id]
  transit_encryption_enabled = true
  transit_encryption_mode    = "required"
  at_rest_encryption_enabled = true
  kms_key_id                 = var.kms_key_arn
  user_group_ids             = [var.user_group_id]
  snapshot_retention_limit   = 0 # counters are ephemeral
  auto_minor_version_upgrade = true
  apply_immediately          = true # an apply that is done has changed the cluster, and what comes next in it may rely on that
  tags                       = var.tags
}

# How many shards the last apply made. An apply that removes some moves their keys, so it asks first.
resource "aws_ssm_parameter" "shards" {
  name        = "/weir/${var.name}/shards"
  description = "Shards of ${var.name} after the last apply of Terraform"
  type        = "String"
  value       = tostring(var.shards)
  tags        = var.tags
  depends_on  = [aws_elasticache_replication_group.this]
}

# Its output is known once the parameter is there, so the first plan does not read it. The condition is that of an output:
# Terraform reads data with a condition of its own only after changes.
resource "terraform_data" "shards" {
  input = aws_ssm_parameter.shards.name
}

data "aws_ssm_parameter" "shards" {
  name = terraform_data.shards.output
}

locals {
  family = "valkey${split(".", var.engine_version)[0]}"

  # What ElastiCache calls the nodes of a new group: its metrics are by node.
  nodes = [for pair in setproduct(range(1, var.shards + 1), range(1, var.replicas + 2)) : format("%s-%04d-%03d", var.name, pair[0], pair[1])]

  # Memory that is full rejects new keys, and evictions would admit too much.
  alarms = {
    memory    = { metric = "DatabaseMemoryUsagePercentage", threshold = 80, missing = "notBreaching", text = "New keys will be rejected: add shards, or shorten periods." }
    evictions = { metric = "Evictions", threshold = 0, missing = "notBreaching", text = "maxmemory-policy is not noeviction: limits leak." }
    cpu       = { metric = "EngineCPUUtilization", threshold = 50, missing = "breaching", text = "The core that decides is half used: add shards. Or the node is away and has no metrics." }
  }
}

resource "aws_cloudwatch_metric_alarm" "this" {
  for_each = merge([for node in local.nodes : { for name, alarm in local.alarms : "${node}-redis-${name}" => merge(alarm, { node = node }) }]...)

  alarm_name          = each.key
  alarm_description   = each.value.text
  namespace           = "AWS/ElastiCache"
  metric_name         = each.value.metric
  dimensions          = { CacheClusterId = each.value.node }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 3
  threshold           = each.value.threshold
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = each.value.missing
  alarm_actions       = var.alarm_actions
  tags                = var.tags
  depends_on          = [aws_elasticache_replication_group.this] # until then all nodes are away
}
