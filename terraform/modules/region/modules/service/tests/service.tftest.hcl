mock_provider "aws" {
  mock_data "aws_region" {
    defaults = { region = "eu-central-1" }
  }
}

variables {
  name                    = "weir-eu"
  program                 = "weir-regional"
  network                 = { vpc_id = "vpc-1", private_subnet_ids = ["subnet-1"] }
  images                  = { weir = "registry.example/weir-regional:0.1.0", consul = "hashicorp/consul:1.21.0" }
  environment             = { WEIR_REGION = "eu" }
  consul_agent            = "{}"
  secrets                 = { "key.pem" = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:key", "redis-password" = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:redis" }
  task_policy             = "{}"
  kms_key_arn             = "arn:aws:kms:eu-central-1:123456789012:key/1"
  agent_security_group_id = "sg-agent"
  redis_security_group_id = "sg-redis"
  callers                 = { groups = { PoPs = "sg-pop" } }
}

run "safe" {
  assert {
    condition     = join(" ", output.container_names) == "files consul weir-regional"
    error_message = "A task must fetch its files, and run an agent and the program."
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
    condition     = length(aws_appautoscaling_policy.decisions) == 0 && aws_appautoscaling_target.this.min_capacity == 3
    error_message = "Without a metric nothing can scale by decisions."
  }
}

run "watched" {
  assert {
    condition = { for c in jsondecode(aws_ecs_task_definition.this.container_definitions) : c.name => c.healthCheck.command if can(c.healthCheck) } == {
    weir-regional = ["CMD", "/weir", "healthcheck", "http://127.0.0.1:8090/healthz"] }
    error_message = "A program that hangs must be replaced, and one that waits for Redis must not."
  }
}

run "by_decisions" {
  variables { replicas = { metric = { namespace = "Weir", name = "decisions_per_second" } } }
  assert {
    condition     = aws_appautoscaling_policy.decisions[0].target_tracking_scaling_policy_configuration[0].target_value == 20000
    error_message = "Autoscaling must aim at the decisions that are asked for."
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
