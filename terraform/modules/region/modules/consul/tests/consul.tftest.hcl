# Each group has an id of its own, so that a rule shows whom it is for.
mock_provider "aws" {
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  override_resource {
    target = aws_security_group.agent
    values = { id = "sg-agent" }
  }
  override_resource {
    target = aws_security_group.server
    values = { id = "sg-server" }
  }
}

variables {
  name        = "weir-eu"
  vpc_id      = "vpc-1"
  subnet_ids  = ["subnet-1", "subnet-2", "subnet-3"]
  image_id    = "ami-1"
  user_data   = "#cloud-config"
  policy      = "{}"
  kms_key_arn = "arn:aws:kms:eu-central-1:123456789012:key/1"
  peer_cidrs  = ["10.2.0.0/16"]
}

run "edges" {
  assert {
    condition     = toset([for r in aws_vpc_security_group_ingress_rule.wan : "${r.cidr_ipv4} ${r.ip_protocol} ${r.from_port}-${r.to_port}"]) == toset(["10.2.0.0/16 tcp 8300-8300", "10.2.0.0/16 tcp 8302-8302", "10.2.0.0/16 udp 8302-8302"])
    error_message = "Other regions may reach the WAN ports of the servers, and nothing else."
  }
  assert {
    condition = toset([for r in aws_vpc_security_group_ingress_rule.within :
      "${r.referenced_security_group_id} ${r.security_group_id} ${r.ip_protocol} ${r.from_port}-${r.to_port}" if r.cidr_ipv4 == null]) == toset([
      "sg-agent sg-agent tcp 8301-8301", "sg-agent sg-agent udp 8301-8301", "sg-agent sg-server tcp 8300-8300",
      "sg-server sg-server tcp 8302-8302", "sg-server sg-server udp 8302-8302",
    ])
    error_message = "Within the region only agents may reach Consul, and servers alone may be called."
  }
  assert {
    condition = toset([for r in aws_vpc_security_group_egress_rule.within : "${r.security_group_id} ${r.referenced_security_group_id} ${r.ip_protocol} ${r.from_port}"]) == toset([
    for r in aws_vpc_security_group_ingress_rule.within : "${r.referenced_security_group_id} ${r.security_group_id} ${r.ip_protocol} ${r.from_port}"])
    error_message = "What a group accepts from another one, the other one must be allowed to send."
  }
  assert {
    condition     = aws_launch_template.server.metadata_options[0].http_tokens == "required" && aws_launch_template.server.block_device_mappings[0].ebs[0].encrypted == "true"
    error_message = "Machines must demand tokens for metadata, and encrypt their disks."
  }
  assert {
    condition     = aws_autoscaling_group.server.min_size == 3 && aws_autoscaling_group.server.max_size == 3
    error_message = "There must be as many servers as were asked for."
  }
  assert {
    condition     = contains([for t in aws_autoscaling_group.server.tag : "${t.key}=${t.value}" if t.propagate_at_launch], "weir-consul-server=weir-eu")
    error_message = "Agents, and servers of other regions, find servers by this tag."
  }
}

run "an_apply_replaces_no_server" {
  assert {
    condition     = length(aws_autoscaling_group.server.instance_refresh) == 0
    error_message = "A majority of the servers must have the data before the next one is replaced."
  }
  assert {
    condition     = contains(aws_autoscaling_group.server.suspended_processes, "AZRebalance") && aws_autoscaling_group.server.max_instance_lifetime == null
    error_message = "Nothing may replace a server that runs."
  }
}

run "data_and_snapshots" {
  variables {
    snapshots = "s3://backups/weir"
    tags      = { team = "edge" }
  }
  assert {
    condition     = alltrue([for d in aws_launch_template.server.block_device_mappings : d.ebs[0].encrypted == "true"]) && contains(aws_launch_template.server.block_device_mappings[*].device_name, "/dev/sdf")
    error_message = "Data must be on an encrypted volume of its own."
  }
  assert {
    condition     = jsondecode(aws_iam_role_policy.snapshots[0].policy).Statement[0].Resource == "arn:aws:s3:::backups/weir/*" && jsondecode(aws_iam_role_policy.snapshots[0].policy).Statement[0].Action == ["s3:PutObject"]
    error_message = "Servers must be able to write snapshots where they are to be, and no more."
  }
  assert {
    condition     = aws_cloudwatch_log_group.server.name == "/weir/weir-eu/consul" && aws_cloudwatch_log_group.server.tags.team == "edge" && contains([for t in aws_autoscaling_group.server.tag : "${t.key}=${t.value}" if t.propagate_at_launch], "team=edge")
    error_message = "Servers must have a log and the tags."
  }
}

run "snapshots_to_no_bucket" {
  command = plan
  variables { snapshots = "backups" }
  expect_failures = [var.snapshots]
}

run "rules_can_be_applied" {
  assert {
    condition     = join(" ", aws_iam_role_policy_attachment.sessions[*].policy_arn) == "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"
    error_message = "Nobody reaches Consul's API but through a session."
  }
}

run "without_sessions" {
  variables { sessions = false }
  assert {
    condition     = length(aws_iam_role_policy_attachment.sessions) == 0
    error_message = "Sessions were not asked for."
  }
}

run "without_snapshots" {
  assert {
    condition     = length(aws_iam_role_policy.snapshots) == 0
    error_message = "Snapshots were not asked for."
  }
}

run "alone" {
  variables { peer_cidrs = [] }
  assert {
    condition     = length(aws_vpc_security_group_ingress_rule.wan) == 0
    error_message = "Without other regions no port is open to networks."
  }
}

run "two_servers" {
  command = plan
  variables { servers = 2 }
  expect_failures = [var.servers]
}
