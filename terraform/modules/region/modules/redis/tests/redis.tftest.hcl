mock_provider "aws" {}

variables {
  name          = "weir-eu"
  vpc_id        = "vpc-1"
  subnet_ids    = ["subnet-1", "subnet-2"]
  kms_key_arn   = "arn:aws:kms:eu-central-1:123456789012:key/1"
  user_group_id = "weir"
  clients       = { weir-regional = "sg-service" }
}

run "safe" {
  assert {
    condition     = aws_elasticache_replication_group.this.transit_encryption_enabled && aws_elasticache_replication_group.this.transit_encryption_mode == "required"
    error_message = "Redis must speak TLS and nothing else."
  }
  assert {
    condition     = aws_elasticache_replication_group.this.user_group_ids == toset(["weir"])
    error_message = "Redis must ask for a user."
  }
  assert {
    condition     = alltrue([for r in aws_vpc_security_group_ingress_rule.clients : r.cidr_ipv4 == null && r.referenced_security_group_id == "sg-service" && r.from_port == 6379 && r.to_port == 6379])
    error_message = "Redis must be open to the service alone, and never to a network."
  }
  assert {
    condition     = contains([for p in aws_elasticache_parameter_group.this.parameter : "${p.name}=${p.value}"], "maxmemory-policy=noeviction")
    error_message = "With another policy than noeviction limits leak."
  }
  assert {
    condition     = contains([for p in aws_elasticache_parameter_group.this.parameter : "${p.name}=${p.value}"], "cluster-enabled=yes") && aws_elasticache_replication_group.this.num_node_groups == 3
    error_message = "Redis must be a cluster."
  }
  assert {
    condition     = aws_elasticache_replication_group.this.at_rest_encryption_enabled == "true" && aws_elasticache_replication_group.this.kms_key_id == var.kms_key_arn
    error_message = "What is on disk must be encrypted with the given key."
  }
}

run "alarms" {
  assert {
    condition = toset([for a in aws_cloudwatch_metric_alarm.this : a.dimensions.CacheClusterId if a.metric_name == "EngineCPUUtilization"]) == toset([
    for id in ["0001-001", "0001-002", "0002-001", "0002-002", "0003-001", "0003-002"] : "weir-eu-${id}"])
    error_message = "Each node must be watched, by the name under which it has metrics."
  }
  assert {
    condition     = alltrue([for a in aws_cloudwatch_metric_alarm.this : keys(a.dimensions) == tolist(["CacheClusterId"])])
    error_message = "ElastiCache has these metrics by node: with other dimensions an alarm sees none."
  }
  assert {
    condition     = alltrue([for a in aws_cloudwatch_metric_alarm.this : (a.treat_missing_data == "breaching") == (a.metric_name == "EngineCPUUtilization")])
    error_message = "A node without metrics must raise one alarm."
  }
  assert {
    condition     = length(aws_cloudwatch_metric_alarm.this) == 18
    error_message = "Each node must have alarms for memory, evictions and CPU."
  }
}

run "without_replicas" {
  variables { replicas = 0 }
  assert {
    condition     = aws_elasticache_replication_group.this.replicas_per_node_group == 0 && !aws_elasticache_replication_group.this.multi_az_enabled
    error_message = "Without replicas there is no second zone for a master."
  }
  assert {
    condition     = length(local.nodes) == 3 && local.nodes[2] == "weir-eu-0003-001"
    error_message = "Without replicas each shard has one node."
  }
}

run "node_without_cluster_mode" {
  command = plan
  variables { node_type = "cache.m1.small" }
  expect_failures = [var.node_type]
}

run "size_that_is_not_there" {
  command = plan
  variables { node_type = "cache.t3.superlarge" }
  expect_failures = [var.node_type]
}

run "size_of_another_family" {
  command = plan
  variables { node_type = "cache.r7g.24xlarge" }
  expect_failures = [var.node_type]
}

run "largest_size" {
  command = plan
  variables { node_type = "cache.r5.24xlarge" }
  assert {
    condition     = aws_elasticache_replication_group.this.node_type == "cache.r5.24xlarge"
    error_message = "The size that is asked for must be used."
  }
}

run "valkey_8" {
  assert {
    condition     = aws_elasticache_replication_group.this.engine_version == "8.0" && aws_elasticache_parameter_group.this.family == "valkey8"
    error_message = "The parameter group must be of the version of the cluster."
  }
}

run "valkey_9" {
  variables { engine_version = "9.0" }
  assert {
    condition     = aws_elasticache_parameter_group.this.family == "valkey9" && aws_elasticache_parameter_group.this.name == "weir-eu-valkey9" && aws_elasticache_replication_group.this.parameter_group_name == aws_elasticache_parameter_group.this.name
    error_message = "The next version needs a parameter group of its own, beside that of the last until the cluster uses it."
  }
}

run "another_engine" {
  command = plan
  variables { engine_version = "7.0" }
  expect_failures = [var.engine_version]
}

run "two_masters" {
  command = plan
  variables { shards = 2 }
  expect_failures = [var.shards]
}

run "everybody_may_use_it" {
  command = plan
  variables { user_group_id = "" }
  expect_failures = [var.user_group_id]
}

run "five_shards" {
  variables { shards = 5 }
}

run "fewer_shards" {
  command = plan
  variables { shards = 3 }
  override_data {
    target = data.aws_ssm_parameter.shards
    values = { insecure_value = "5" }
  }
  expect_failures = [output.address]
}

run "fewer_shards_as_asked" {
  variables {
    shards       = 3
    fewer_shards = true
  }
  override_data {
    target = data.aws_ssm_parameter.shards
    values = { insecure_value = "5" }
  }
  assert {
    condition     = aws_elasticache_replication_group.this.num_node_groups == 3
    error_message = "An operator who asks for fewer shards must get them."
  }
}
