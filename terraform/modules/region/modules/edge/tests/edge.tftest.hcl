mock_provider "aws" {}

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

run "no_pop" {
  command = plan
  variables { pops = { min = 0 } }
  expect_failures = [var.pops]
}
