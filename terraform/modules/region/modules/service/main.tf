data "aws_region" "current" {}

data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

locals {
  # Keys of the secret, each of which becomes a file. docs/bootstrap.md has what they are.
  program_files = ["ca.pem", "cert.pem", "key.pem", "consul-token", "redis-password", "key-secrets"]
  agent_files   = ["consul.json", "consul-ca.pem", "consul-cert.pem", "consul-key.pem"]
  files         = [for f in concat(local.program_files, local.agent_files) : f if f != "key-secrets" || can(var.environment.WEIR_KEY_SECRETS)]

  # Secrets, and what a program keeps while the task lives, are on volumes of the task. The program and the
  # agent have users and volumes of their own, under the same paths: neither reads what is the other's.
  paths = { secrets = "/etc/weir/secrets", data = "/var/lib/weir" }
  users = { program = "65532", agent = "65533" }
  volumes = flatten([for who, user in local.users : [for what, path in local.paths : {
    name = "${who}-${what}", who = who, user = user, path = path, read_only = what == "secrets"
  }]])
  mounts = { for who, user in local.users : who => [for v in local.volumes :
  { sourceVolume = v.name, containerPath = v.path, readOnly = v.read_only } if v.who == who] }

  # Whoever may use the admin API reaches it through this container, which has no secrets: ECS opens sessions only in
  # containers that may write into their image.
  api = var.admin_tokens != ""
  session_container = {
    name             = "session"
    image            = var.images.consul
    essential        = false
    user             = local.users.program # the agent of Systems Manager is root in it all the same
    memory           = 128
    entryPoint       = ["sleep", "infinity"]
    linuxParameters  = { initProcessEnabled = true }
    logConfiguration = local.log
  }

  others = 512 # MiB of a task for the collector, the agent, a session and what Fargate itself takes

  log = { logDriver = "awslogs", options = {
    awslogs-group         = aws_cloudwatch_log_group.this.name
    awslogs-region        = data.aws_region.current.region
    awslogs-stream-prefix = var.program
  } }

  # A program reads secrets as files, and ECS gives them as variables.
  files_container = {
    name       = "files"
    image      = var.images.consul
    essential  = false
    user       = "0"
    entryPoint = ["/bin/sh", "-ec"]
    command = [join("\n", concat(
      ["umask 077", "printf '%s' \"$AGENT\" >/volumes/agent-secrets/agent.json"],
      [for on in local.api ? [true] : [] : "printf '%s' \"$TOKENS\" >/volumes/program-secrets/admin-tokens"],
      [for i, file in local.files : "printf '%s' \"$SECRET_${i}\" >/volumes/${contains(local.agent_files, file) ? "agent" : "program"}-secrets/${file}"],
      [for v in local.volumes : "chown -R ${v.user}:${v.user} /volumes/${v.name}"],
    ))]
    environment      = concat([{ name = "AGENT", value = var.consul_agent }], [for on in local.api ? [true] : [] : { name = "TOKENS", value = var.admin_tokens }])
    secrets          = [for i, file in local.files : { name = "SECRET_${i}", valueFrom = "${var.secret}:${file}::" }]
    mountPoints      = [for v in local.volumes : { sourceVolume = v.name, containerPath = "/volumes/${v.name}", readOnly = false }]
    logConfiguration = local.log
  }

  consul_container = {
    name       = "consul"
    image      = var.images.consul
    essential  = true
    user       = local.users.agent
    entryPoint = ["/bin/sh", "-ec"]
    # Its token may register nodes with this prefix alone; a host name of AWS goes on with a domain.
    command = [join(" ", ["host=$(hostname); exec consul agent -node=\"${var.node}-$${host%%.*}\"",
    "-config-file=${local.paths.secrets}/agent.json", "-config-file=${local.paths.secrets}/consul.json"])]
    dependsOn              = [{ containerName = "files", condition = "SUCCESS" }]
    mountPoints            = local.mounts.agent
    readonlyRootFilesystem = true
    stopTimeout            = 60
    logConfiguration       = local.log
  }

  program_container = {
    name                   = var.program
    image                  = var.images.weir
    essential              = true
    user                   = local.users.program
    readonlyRootFilesystem = true
    environment            = [for k, v in merge(var.environment, module.collector.environment) : { name = k, value = v }]
    portMappings           = [{ containerPort = 8080, protocol = "tcp" }]
    dependsOn              = [{ containerName = "files", condition = "SUCCESS" }, { containerName = "consul", condition = "START" }]
    mountPoints            = local.mounts.program
    memory                 = var.size.memory - local.others # its cgroup, by which it bounds itself
    # It passes once the program has been ready: new replicas that never are do not replace those that
    # serve. Later it fails only where the program hangs: without Redis no replica is ready, nor would new ones be.
    healthCheck = {
      command  = ["CMD", "/weir", "healthcheck", "http://127.0.0.1:8090/startedz"]
      interval = 10, timeout = 5, retries = 3, startPeriod = 300
    }
    stopTimeout      = 30 # longer than --drain-wait and --drain-timeout
    linuxParameters  = { initProcessEnabled = false, capabilities = { drop = ["ALL"] } }
    ulimits          = [{ name = "nofile", softLimit = 65536, hardLimit = 65536 }]
    logConfiguration = local.log
  }

  # Its failure is none of the program: that one decides without it.
  collector_container = {
    name                   = "collector"
    image                  = var.images.collector
    essential              = false
    restartPolicy          = { enabled = true }
    user                   = local.users.program
    memory                 = 192
    readonlyRootFilesystem = true
    environment            = [{ name = "AOT_CONFIG_CONTENT", value = module.collector.config_json }]
    linuxParameters        = { initProcessEnabled = false, capabilities = { drop = ["ALL"] } }
    logConfiguration       = local.log
  }
}

module "collector" {
  source = "../collector"

  service    = "${var.name}-${var.program}"
  aws_region = data.aws_region.current.region
  log_group  = aws_cloudwatch_log_group.metrics.name

  job                  = var.program
  region               = lookup(var.environment, "WEIR_REGION", "")
  prometheus_workspace = var.prometheus_workspace
}

resource "aws_cloudwatch_log_group" "this" {
  name              = "/weir/${var.name}/${var.program}"
  retention_in_days = 30
  kms_key_id        = var.kms_key_arn
  tags              = var.tags
}

# CloudWatch takes metrics out of this log, and keeps them longer than it.
resource "aws_cloudwatch_log_group" "metrics" {
  name              = "/weir/${var.name}/${var.program}/metrics"
  retention_in_days = 3
  kms_key_id        = var.kms_key_arn
  tags              = var.tags
}

resource "aws_security_group" "this" {
  name        = "${var.name}-${var.program}"
  description = "${var.program}: the QuotaService"
  vpc_id      = var.network.vpc_id
  tags        = var.tags
}

resource "aws_vpc_security_group_ingress_rule" "groups" {
  for_each = var.callers.groups

  security_group_id            = aws_security_group.this.id
  referenced_security_group_id = each.value
  description                  = each.key
  ip_protocol                  = "tcp"
  from_port                    = 8080
  to_port                      = 8080
  tags                         = var.tags
}

resource "aws_vpc_security_group_ingress_rule" "cidrs" {
  for_each = var.callers.cidrs

  security_group_id = aws_security_group.this.id
  cidr_ipv4         = each.value
  description       = each.key
  ip_protocol       = "tcp"
  from_port         = 8080
  to_port           = 8080
  tags              = var.tags
}

resource "aws_vpc_security_group_egress_rule" "redis" {
  security_group_id            = aws_security_group.this.id
  referenced_security_group_id = var.redis_security_group_id
  description                  = "Redis"
  ip_protocol                  = "tcp"
  from_port                    = 6379
  to_port                      = 6379
  tags                         = var.tags
}

resource "aws_vpc_security_group_egress_rule" "aggregators" {
  for_each = var.calls

  security_group_id = aws_security_group.this.id
  cidr_ipv4         = each.value
  description       = each.key
  ip_protocol       = "tcp"
  from_port         = 8080
  to_port           = 8080
  tags              = var.tags
}

locals {
  partition = data.aws_partition.current.partition
  account   = data.aws_caller_identity.current.account_id

  # Repositories of ECR that the images are in; other registries ask for no permission.
  registry = "^(\\d{12})\\.dkr\\.ecr\\.([a-z0-9-]+)\\.amazonaws\\.com(?:\\.cn)?/([^:@]+)"
  repositories = distinct([for i in values(var.images) :
  "arn:${local.partition}:ecr:${regex(local.registry, i)[1]}:${regex(local.registry, i)[0]}:repository/${regex(local.registry, i)[2]}" if can(regex(local.registry, i))])

  trust = { Effect = "Allow", Action = "sts:AssumeRole", Principal = { Service = "ecs-tasks.amazonaws.com" } }
}

# Of ECS itself: images, the log, and the secrets of this program.
resource "aws_iam_role" "execution" {
  name_prefix        = "${var.program}-exec-"
  assume_role_policy = jsonencode({ Version = "2012-10-17", Statement = [local.trust] })
  tags               = var.tags
}

resource "aws_iam_role_policy" "execution" {
  name = "execution"
  role = aws_iam_role.execution.id
  policy = jsonencode({ Version = "2012-10-17", Statement = concat(
    [
      { Effect = "Allow", Action = ["logs:CreateLogStream", "logs:PutLogEvents"], Resource = "${aws_cloudwatch_log_group.this.arn}:*" },
      { Effect = "Allow", Action = ["secretsmanager:GetSecretValue"], Resource = [var.secret] },
    ],
    flatten([for repositories in length(local.repositories) > 0 ? [local.repositories] : [] : [
      { Effect = "Allow", Action = ["ecr:GetAuthorizationToken"], Resource = ["*"] }, # has no resources
      { Effect = "Allow", Action = ["ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage"], Resource = repositories },
    ]]),
    [for keys in length(var.secrets_key_arns) > 0 ? [var.secrets_key_arns] : [] : { Effect = "Allow", Action = ["kms:Decrypt"], Resource = keys }],
  ) })
}

# Of the containers. ECS takes it for tasks of this account and region alone, as AWS advises for it.
resource "aws_iam_role" "task" {
  name_prefix = "${var.program}-task-"
  assume_role_policy = jsonencode({ Version = "2012-10-17", Statement = [merge(local.trust, { Condition = {
    StringEquals = { "aws:SourceAccount" = local.account }
    ArnLike      = { "aws:SourceArn" = "arn:${local.partition}:ecs:${data.aws_region.current.region}:${local.account}:*" }
  } })] })
  tags = var.tags
}

resource "aws_iam_role_policy" "task" {
  name   = "task"
  role   = aws_iam_role.task.id
  policy = var.task_policy
}

resource "aws_iam_role_policy" "metrics" {
  name = "metrics"
  role = aws_iam_role.task.id
  policy = jsonencode({ Version = "2012-10-17", Statement = concat(
    [{ Effect = "Allow", Action = ["logs:CreateLogStream", "logs:PutLogEvents"], Resource = "${aws_cloudwatch_log_group.metrics.arn}:*" }],
    [for w in compact([var.prometheus_workspace]) : { Effect = "Allow", Action = ["aps:RemoteWrite"], Resource = w }],
  ) })
}

resource "aws_iam_role_policy" "sessions" {
  count = local.api ? 1 : 0

  name = "sessions"
  role = aws_iam_role.task.id
  policy = jsonencode({ Version = "2012-10-17", Statement = [{ # these have no resources
    Effect = "Allow", Action = [for what in ["CreateControlChannel", "CreateDataChannel", "OpenControlChannel", "OpenDataChannel"] : "ssmmessages:${what}"], Resource = "*"
  }] })
}

resource "aws_ecs_cluster" "this" {
  name = "${var.name}-${var.program}"
  tags = var.tags
}

resource "aws_ecs_task_definition" "this" {
  family                   = "${var.name}-${var.program}"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = tostring(var.size.cpu)
  memory                   = tostring(var.size.memory)
  execution_role_arn       = aws_iam_role.execution.arn
  task_role_arn            = aws_iam_role.task.arn
  container_definitions    = jsonencode(concat([local.files_container, local.consul_container, local.collector_container, local.program_container], [for on in local.api ? [true] : [] : local.session_container]))

  runtime_platform {
    operating_system_family = "LINUX"
    cpu_architecture        = var.architecture
  }
  dynamic "volume" {
    for_each = local.volumes
    content {
      name = volume.value.name
    }
  }
  lifecycle {
    create_before_destroy = true # a service that ECS rolls back goes on with the old one, which must be registered
  }
  tags = var.tags
}

resource "aws_ecs_service" "this" {
  name                               = var.program
  cluster                            = aws_ecs_cluster.this.arn
  task_definition                    = aws_ecs_task_definition.this.arn
  launch_type                        = "FARGATE"
  desired_count                      = var.replicas.min
  deployment_minimum_healthy_percent = 100
  deployment_maximum_percent         = 200
  availability_zone_rebalancing      = "ENABLED"
  wait_for_steady_state              = true # what comes next in an apply finds the new tasks
  propagate_tags                     = "SERVICE"
  enable_ecs_managed_tags            = true
  enable_execute_command             = local.api
  depends_on = [ # tasks that start without these fail, and ECS gives up
    var.after, aws_iam_role_policy.execution, aws_iam_role_policy.task, aws_iam_role_policy.metrics, aws_iam_role_policy.sessions,
    aws_vpc_security_group_egress_rule.redis, aws_vpc_security_group_egress_rule.aggregators,
  ]

  network_configuration {
    subnets          = var.network.private_subnet_ids
    security_groups  = [aws_security_group.this.id, var.agent_security_group_id]
    assign_public_ip = false
  }
  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }
  lifecycle {
    ignore_changes = [desired_count] # is what autoscaling made of it

    # The apply ends here, before it updates PoPs.
    postcondition {
      condition     = self.task_definition == aws_ecs_task_definition.this.arn
      error_message = "ECS rolled ${var.program} back, because its new tasks did not start: they run ${self.task_definition}. Find the reason in the events of the service and in the log group ${aws_cloudwatch_log_group.this.name}, correct it, and apply again."
    }
  }
  tags = var.tags
}

resource "aws_appautoscaling_target" "this" {
  service_namespace  = "ecs"
  resource_id        = "service/${aws_ecs_cluster.this.name}/${aws_ecs_service.this.name}"
  scalable_dimension = "ecs:service:DesiredCount"
  min_capacity       = var.replicas.min
  max_capacity       = var.replicas.max
  tags               = var.tags
}

resource "aws_appautoscaling_policy" "cpu" {
  name               = "cpu"
  policy_type        = "TargetTrackingScaling"
  service_namespace  = aws_appautoscaling_target.this.service_namespace
  resource_id        = aws_appautoscaling_target.this.resource_id
  scalable_dimension = aws_appautoscaling_target.this.scalable_dimension

  target_tracking_scaling_policy_configuration {
    target_value       = var.replicas.cpu_percent
    scale_out_cooldown = 60
    scale_in_cooldown  = 600
    predefined_metric_specification {
      predefined_metric_type = "ECSServiceAverageCPUUtilization"
    }
  }
}

# The average of what each task decided in a minute.
resource "aws_appautoscaling_policy" "decisions" {
  name               = "decisions"
  policy_type        = "TargetTrackingScaling"
  service_namespace  = aws_appautoscaling_target.this.service_namespace
  resource_id        = aws_appautoscaling_target.this.resource_id
  scalable_dimension = aws_appautoscaling_target.this.scalable_dimension

  target_tracking_scaling_policy_configuration {
    target_value       = var.replicas.decisions_per_second * module.collector.metrics.interval
    scale_out_cooldown = 60
    scale_in_cooldown  = 600
    customized_metric_specification {
      namespace   = module.collector.metrics.namespace
      metric_name = module.collector.metrics.wants
      statistic   = "Average"
      dynamic "dimensions" {
        for_each = module.collector.metrics.dimensions
        content {
          name  = dimensions.key
          value = dimensions.value
        }
      }
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "cpu" {
  alarm_name          = "${var.name}-${var.program}-cpu"
  alarm_description   = "Autoscaling does not keep up: raise replicas.max, or size."
  namespace           = "AWS/ECS"
  metric_name         = "CPUUtilization"
  dimensions          = { ClusterName = aws_ecs_cluster.this.name, ServiceName = aws_ecs_service.this.name }
  statistic           = "Average"
  period              = 60
  evaluation_periods  = 5
  threshold           = 85
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "breaching"
  alarm_actions       = var.alarm_actions
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "redis" {
  alarm_name          = "${var.name}-${var.program}-redis"
  alarm_description   = "Redis does not decide on some keys: docs/runbooks/WeirRedisUnavailable.md."
  namespace           = module.collector.metrics.namespace
  metric_name         = module.collector.metrics.redis_unavailable
  dimensions          = module.collector.metrics.dimensions
  statistic           = "Sum"
  period              = 60
  evaluation_periods  = 2
  threshold           = 0
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching" # the alarm of rules fires when there are no metrics
  alarm_actions       = var.alarm_actions
  tags                = var.tags
}

resource "aws_cloudwatch_metric_alarm" "rules" {
  alarm_name          = "${var.name}-${var.program}-rules"
  alarm_description   = "A task cannot use the rules (docs/runbooks/WeirRulesUnusable.md), or none gives metrics."
  namespace           = module.collector.metrics.namespace
  metric_name         = module.collector.metrics.rules_ok
  dimensions          = module.collector.metrics.dimensions
  statistic           = "Minimum"
  period              = 60
  evaluation_periods  = 5
  threshold           = 1
  comparison_operator = "LessThanThreshold"
  treat_missing_data  = "breaching"
  alarm_actions       = var.alarm_actions
  tags                = var.tags
}
