mock_provider "aws" {
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
}

variables {
  name                      = "weir-eu"
  network                   = { vpc_id = "vpc-1", public_subnet_ids = ["subnet-1"], private_subnet_ids = ["subnet-2"] }
  ports                     = { client = 10000, health = 10002 }
  upstream_ports            = [8443]
  image_id                  = "ami-1"
  user_data                 = "#cloud-config"
  policy                    = "{}"
  kms_key_arn               = "arn:aws:kms:eu-central-1:123456789012:key/1"
  agent_security_group_id   = "sg-agent"
  service_security_group_id = "sg-service"
}

run "edges" {
  assert {
    condition     = toset([for r in aws_vpc_security_group_ingress_rule.clients : "${r.cidr_ipv4} ${r.from_port}-${r.to_port}"]) == toset(["0.0.0.0/0 443-443"])
    error_message = "Only the port for clients may be open to everybody."
  }
  assert {
    condition     = toset([for r in aws_vpc_security_group_ingress_rule.pop : r.from_port]) == toset([10000, 10002]) && alltrue([for r in aws_vpc_security_group_ingress_rule.pop : r.cidr_ipv4 == null])
    error_message = "PoPs must be open to the load balancer alone, and their admin endpoint to nobody."
  }
  assert {
    condition     = aws_lb_target_group.pop.preserve_client_ip == "true" && aws_lb_listener.clients.protocol == "TCP"
    error_message = "Envoy must see the addresses of clients."
  }
  assert {
    condition     = aws_launch_template.pop.metadata_options[0].http_tokens == "required" && aws_launch_template.pop.block_device_mappings[0].ebs[0].encrypted == "true"
    error_message = "Machines must demand tokens for metadata, and encrypt their disks."
  }
}

run "a_flood_ends_no_pop" {
  assert {
    condition     = aws_autoscaling_group.pop.health_check_type == "EC2"
    error_message = "A PoP that answers too slowly must be taken out, and not replaced."
  }
  assert {
    condition     = aws_lb_target_group.pop.health_check[0].unhealthy_threshold >= 3 && aws_lb_target_group.pop.health_check[0].timeout >= 5
    error_message = "One slow answer must not take a PoP out."
  }
}

run "an_apply_fails_without_pops_that_serve" {
  assert {
    condition     = aws_autoscaling_group.pop.min_elb_capacity == aws_autoscaling_group.pop.min_size
    error_message = "The first apply must wait until PoPs serve."
  }
  assert {
    condition     = aws_autoscaling_group.pop.instance_refresh[0].preferences[0].min_healthy_percentage == 100 && aws_autoscaling_group.pop.instance_refresh[0].preferences[0].auto_rollback && length(aws_autoscaling_group.pop.instance_refresh[0].preferences[0].alarm_specification[0].alarms) == 1
    error_message = "A template whose PoPs do not serve must be taken back."
  }
}

run "tags_and_logs" {
  variables { tags = { team = "edge" } }
  assert {
    condition     = aws_lb.this.tags.team == "edge" && contains([for t in aws_autoscaling_group.pop.tag : "${t.key}=${t.value}" if t.propagate_at_launch], "team=edge") && toset([for t in aws_launch_template.pop.tag_specifications : "${t.resource_type} ${t.tags.team}"]) == toset(["volume edge"])
    error_message = "Machines and their volumes must have the tags, too."
  }
  assert {
    condition     = aws_cloudwatch_log_group.pop.name == "/weir/weir-eu/pop" && aws_cloudwatch_log_group.pop.kms_key_id == var.kms_key_arn && strcontains(aws_iam_role_policy.log.policy, "logs:PutLogEvents")
    error_message = "PoPs must be able to log to their group."
  }
  assert {
    condition     = join(" ", aws_iam_role_policy_attachment.sessions[*].policy_arn) == "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"
    error_message = "Nobody reaches a PoP but through a session."
  }
}

run "without_sessions" {
  variables { sessions = false }
  assert {
    condition     = length(aws_iam_role_policy_attachment.sessions) == 0
    error_message = "Sessions were not asked for."
  }
}

run "no_pop" {
  command = plan
  variables { pops = { min = 0 } }
  expect_failures = [var.pops]
}
