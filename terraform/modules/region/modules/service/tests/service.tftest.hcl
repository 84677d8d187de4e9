mock_provider "aws" {
  mock_data "aws_region" {
    defaults = { region = "eu-central-1" }
  }
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
}

variables {
  name                    = "weir-eu"
  program                 = "weir-regional"
  network                 = { vpc_id = "vpc-1", private_subnet_ids = ["subnet-1"] }
  images                  = { weir = "registry.example/weir-regional:0.1.0", consul = "hashicorp/consul:1.21.0" }
  environment             = { WEIR_REGION = "eu" }
  consul_agent            = "{}"
  secret                  = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:weir/eu/service-AbCdEf"
  node                    = "eu-service"
  task_policy             = "{}"
  kms_key_arn             = "arn:aws:kms:eu-central-1:123456789012:key/1"
  agent_security_group_id = "sg-agent"
  redis_security_group_id = "sg-redis"
  callers                 = { groups = { PoPs = "sg-pop" } }
}

run "safe" {
  assert {
    condition     = join(" ", [for c in jsondecode(aws_ecs_task_definition.this.container_definitions) : c.name]) == "files consul collector weir-regional"
    error_message = "A task must fetch its files, and run an agent, a collector and the program."
  }
  assert {
    condition     = length(aws_vpc_security_group_ingress_rule.groups) == 1 && length(aws_vpc_security_group_ingress_rule.cidrs) == 0 && aws_vpc_security_group_ingress_rule.groups["PoPs"].from_port == 8080 && aws_vpc_security_group_ingress_rule.groups["PoPs"].referenced_security_group_id == "sg-pop"
    error_message = "A region must be open to PoPs alone, on one port."
  }
  assert {
    condition     = !aws_ecs_service.this.network_configuration[0].assign_public_ip
    error_message = "A task must have no public address."
  }
  assert {
    condition = alltrue([for s in jsondecode(aws_iam_role_policy.execution.policy).Statement :
    s.Resource != "*" if anytrue([for a in s.Action : startswith(a, "secretsmanager:") || startswith(a, "kms:")])])
    error_message = "The role may read the secrets of this program, and no others."
  }
  assert {
    condition = alltrue([for c in jsondecode(aws_ecs_task_definition.this.container_definitions) :
    c.name == "files" || try(c.user != "0" && c.readonlyRootFilesystem, false)])
    error_message = "Programs must not run as root, nor write into their image."
  }
  assert {
    condition     = !strcontains(jsonencode([for c in jsondecode(aws_ecs_task_definition.this.container_definitions) : try(c.environment, [])]), "secretsmanager")
    error_message = "Secrets must not be in the environment of a program."
  }
  assert {
    condition     = aws_appautoscaling_target.this.min_capacity == 3
    error_message = "By default there are three tasks."
  }
}

run "watched" {
  assert {
    condition = { for c in jsondecode(aws_ecs_task_definition.this.container_definitions) : c.name => c.healthCheck.command if can(c.healthCheck) } == {
    weir-regional = ["CMD", "/weir", "healthcheck", "http://127.0.0.1:8090/startedz"] }
    error_message = "A replica that never gets ready must not replace one that serves, and one that waits for Redis later must stay."
  }
}

# The collector's configuration is read as the task has it.
run "metrics" {
  variables { replicas = { decisions_per_second = 5000 } }
  assert {
    condition = alltrue([for c in jsondecode(aws_ecs_task_definition.this.container_definitions) : !c.essential && c.memory < 2048 && [
    for e in c.environment : jsondecode(e.value).exporters.awsemf.log_group_name] == ["/weir/weir-eu/weir-regional/metrics"] if c.name == "collector"])
    error_message = "The collector must have the log group of this program, and not end a task."
  }
  assert {
    condition = alltrue([for c in jsondecode(aws_ecs_task_definition.this.container_definitions) : [
    for e in c.environment : e.value if e.name == "WEIR_OTLP"] == ["http://127.0.0.1:4317"] if c.name == "weir-regional"])
    error_message = "The program must send its metrics to the collector of its task."
  }
  assert {
    condition     = aws_appautoscaling_policy.decisions.target_tracking_scaling_policy_configuration[0].target_value == 60 * 5000
    error_message = "Autoscaling must aim at the decisions that are asked for, in the minute that a value is over."
  }
  assert {
    condition = toset([for m in concat(
      [for m in aws_appautoscaling_policy.decisions.target_tracking_scaling_policy_configuration[0].customized_metric_specification :
      { namespace = m.namespace, name = m.metric_name, dimensions = { for d in m.dimensions : d.name => d.value } }],
      [for m in [aws_cloudwatch_metric_alarm.redis, aws_cloudwatch_metric_alarm.rules] : { namespace = m.namespace, name = m.metric_name, dimensions = m.dimensions }],
      ) : jsonencode(m)]) == toset(flatten([for c in jsondecode(aws_ecs_task_definition.this.container_definitions) : [for e in c.environment : [
        for t in jsondecode(e.value).processors.metricstransform.transforms : jsonencode({
          namespace = jsondecode(e.value).exporters.awsemf.namespace, name = t.include, dimensions = { (t.operations[1].new_label) = t.operations[1].new_value }
    })]] if c.name == "collector"]))
    error_message = "Alarms and autoscaling must watch what the collector sends: with another name, namespace or dimension they see nothing."
  }
  assert {
    condition = [for s in jsondecode(aws_iam_role_policy.metrics.policy).Statement : { actions = s.Action, resource = s.Resource }] == [
    { actions = ["logs:CreateLogStream", "logs:PutLogEvents"], resource = "${aws_cloudwatch_log_group.metrics.arn}:*" }]
    error_message = "The collector may write into its log group, and do nothing else."
  }
}

run "task" {
  assert {
    condition     = one(aws_ecs_task_definition.this.runtime_platform).cpu_architecture == "ARM64" && one(aws_ecs_task_definition.this.runtime_platform).operating_system_family == "LINUX"
    error_message = "Without a platform ECS starts tasks on X86_64, and images for ARM64 do not run there."
  }
  assert {
    condition = [for c in jsondecode(aws_ecs_task_definition.this.container_definitions) : [for s in c.secrets : s.valueFrom] if c.name == "files"][0] == [
      for file in ["ca.pem", "cert.pem", "key.pem", "consul-token", "redis-password", "consul.json", "consul-ca.pem", "consul-cert.pem", "consul-key.pem"] :
    "arn:aws:secretsmanager:eu-central-1:123456789012:secret:weir/eu/service-AbCdEf:${file}::"]
    error_message = "Each file must be a key of the one secret."
  }
  assert {
    condition     = [for c in jsondecode(aws_ecs_task_definition.this.container_definitions) : strcontains(c.command[0], "host=$(hostname); exec consul agent -node=\"eu-service-$${host%%.*}\" ") if c.name == "consul"][0]
    error_message = "The agent's node must have the name that its token may register."
  }
  assert {
    condition     = [for c in jsondecode(aws_ecs_task_definition.this.container_definitions) : c.memory if c.name == "weir-regional"][0] == 1536
    error_message = "The program bounds itself by the limit of its container: without one that is the task's, which others need, too."
  }
  assert {
    condition     = !strcontains(aws_ecs_task_definition.this.container_definitions, "WEIR_MAX_MEMORY")
    error_message = "The limit of the container is the one number for memory."
  }
  assert {
    condition     = aws_ecs_service.this.wait_for_steady_state && aws_ecs_service.this.propagate_tags == "SERVICE"
    error_message = "An apply must wait for the tasks, which have the tags of their service."
  }
}

# Which files are in which volume is read from the script that writes them.
run "apart" {
  assert {
    condition = { for c in jsondecode(aws_ecs_task_definition.this.container_definitions) : c.name => { user = c.user, mounts = [
      for m in c.mountPoints : "${m.sourceVolume} ${m.containerPath} ${m.readOnly ? "ro" : "rw"}"] } if can(c.mountPoints) && c.name != "files" } == {
      consul        = { user = "65533", mounts = ["agent-data /var/lib/weir rw", "agent-secrets /etc/weir/secrets ro"] }
      weir-regional = { user = "65532", mounts = ["program-data /var/lib/weir rw", "program-secrets /etc/weir/secrets ro"] }
    }
    error_message = "The agent and the program must each have a user and volumes of their own."
  }
  assert {
    condition = { for volume in ["agent-secrets", "program-secrets"] : volume => [for c in jsondecode(aws_ecs_task_definition.this.container_definitions) :
      flatten(regexall(">/volumes/${volume}/(\\S+)", c.command[0])) if c.name == "files"][0] } == {
      agent-secrets   = ["agent.json", "consul.json", "consul-ca.pem", "consul-cert.pem", "consul-key.pem"]
      program-secrets = ["ca.pem", "cert.pem", "key.pem", "consul-token", "redis-password"]
    }
    error_message = "The agent must not read the program's key, token and password, nor the program the agent's."
  }
  assert {
    condition = alltrue([for c in jsondecode(aws_ecs_task_definition.this.container_definitions) : alltrue([for v in aws_ecs_task_definition.this.volume :
      strcontains(c.command[0], "chown -R ${startswith(v.name, "agent") ? "65533:65533" : "65532:65532"} /volumes/${v.name}") &&
    contains([for m in c.mountPoints : m.containerPath], "/volumes/${v.name}")]) if c.name == "files"]) && length(aws_ecs_task_definition.this.volume) == 4
    error_message = "Each volume must belong to the user that has it."
  }
}

run "secrets_of_keys" {
  variables { environment = { WEIR_KEY_SECRETS = "/etc/weir/secrets/key-secrets" } }
  assert {
    condition = [for c in jsondecode(aws_ecs_task_definition.this.container_definitions) : contains(flatten(regexall(">/volumes/program-secrets/(\\S+)", c.command[0])), "key-secrets") &&
    contains([for s in c.secrets : s.valueFrom], "${var.secret}:key-secrets::") if c.name == "files"][0]
    error_message = "The file that the environment names must be a key of the secret, and the program's."
  }
}

run "x86" {
  variables { architecture = "X86_64" }
  assert {
    condition     = one(aws_ecs_task_definition.this.runtime_platform).cpu_architecture == "X86_64"
    error_message = "Tasks must run on the processor that is asked for."
  }
}

run "another_architecture" {
  command = plan
  variables { architecture = "amd64" }
  expect_failures = [var.architecture]
}

run "a_secret_in_place_of_its_name" {
  command = plan
  variables { secret = "secret" }
  expect_failures = [var.secret]
}

run "no_decisions" {
  command = plan
  variables { replicas = { decisions_per_second = 0 } }
  expect_failures = [var.replicas]
}

run "trust" {
  assert {
    condition = alltrue([for s in jsondecode(aws_iam_role.task.assume_role_policy).Statement :
    s.Condition.StringEquals["aws:SourceAccount"] == "123456789012" && s.Condition.ArnLike["aws:SourceArn"] == "arn:aws:ecs:eu-central-1:123456789012:*"])
    error_message = "ECS must take the role of a task for tasks of this account alone."
  }
  assert {
    condition     = !strcontains(aws_iam_role_policy.execution.policy, "ecr:")
    error_message = "Registries other than ECR ask for no permission."
  }
}

run "images_in_ecr" {
  variables {
    images = {
      weir      = "123456789012.dkr.ecr.eu-central-1.amazonaws.com/weir/weir-regional:0.1.0"
      consul    = "hashicorp/consul:1.21.0"
      collector = "210987654321.dkr.ecr.us-east-1.amazonaws.com/collector@sha256:ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
    }
  }
  assert {
    condition = toset(flatten([for s in jsondecode(aws_iam_role_policy.execution.policy).Statement : s.Resource if contains(s.Action, "ecr:BatchGetImage")])) == toset([
    "arn:aws:ecr:eu-central-1:123456789012:repository/weir/weir-regional", "arn:aws:ecr:us-east-1:210987654321:repository/collector"])
    error_message = "ECS may fetch the images of this task, and no others."
  }
}

run "latest_image" {
  command = plan
  variables { images = { weir = "registry.example/weir-regional:latest", consul = "hashicorp/consul:1.21.0" } }
  expect_failures = [var.images]
}

run "size_that_fargate_has_not" {
  command = plan
  variables { size = { cpu = 1000 } }
  expect_failures = [var.size]
}

run "closed" {
  assert {
    condition     = !aws_ecs_service.this.enable_execute_command && length(aws_iam_role_policy.sessions) == 0
    error_message = "Without tokens tasks must take no sessions."
  }
}

run "admin_api" {
  variables { admin_tokens = "tokens: [{ name: ann, role: operator, sha256: ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb }]" }
  assert {
    condition     = aws_ecs_service.this.enable_execute_command && length(aws_iam_role_policy.sessions) == 1
    error_message = "With tokens tasks must take sessions."
  }
  assert {
    condition     = [for c in jsondecode(aws_ecs_task_definition.this.container_definitions) : try(c.mountPoints, []) if !try(c.readonlyRootFilesystem, false) && c.name != "files"] == [[]]
    error_message = "Sessions must be in a container without secrets: those with secrets are read-only, and take none."
  }
  assert {
    condition = [for c in jsondecode(aws_ecs_task_definition.this.container_definitions) :
    [for e in c.environment : e.value if e.name == "TOKENS"] == [var.admin_tokens] && strcontains(c.command[0], ">/volumes/program-secrets/admin-tokens") if c.name == "files"][0]
    error_message = "The program must have the file of tokens."
  }
}

run "a_token_in_place_of_the_file" {
  command = plan
  variables { admin_tokens = "weir_secret" }
  expect_failures = [var.admin_tokens]
}

run "prometheus" {
  variables { prometheus_workspace = "arn:aws:aps:eu-central-1:123456789012:workspace/ws-1a2b" }
  assert {
    condition     = [for s in jsondecode(aws_iam_role_policy.metrics.policy).Statement : s.Resource if s.Action == ["aps:RemoteWrite"]] == [var.prometheus_workspace]
    error_message = "The collector may write into its workspace."
  }
}
