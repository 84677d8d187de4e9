# What the rendered files are for the programs, test/terraform tests with the programs themselves.

variables {
  region = "eu"
  pop    = { upstreams = ["app.internal:8080"] }
}

run "defaults" {
  assert {
    condition     = yamldecode(output.envoy_yaml).admin.address.socket_address.address == "127.0.0.1"
    error_message = "Envoy's admin endpoint must be on loopback only."
  }
  assert {
    condition = alltrue([for c in yamldecode(output.envoy_yaml).static_resources.clusters :
    c.name != "weir_region" || can(c.transport_socket.typed_config.common_tls_context.tls_certificates[0])])
    error_message = "PoPs must call their region with TLS and a certificate, unless that is switched off."
  }
  assert {
    condition     = output.regional_environment.WEIR_TLS_CLIENT_CA == "/etc/weir/secrets/ca.pem" && output.global_environment.WEIR_TLS_CLIENT_CA == "/etc/weir/secrets/ca.pem"
    error_message = "Both services must demand certificates of their callers."
  }
  assert {
    condition     = output.regional_environment.WEIR_GLOBAL_TLS == "true" && output.regional_environment.WEIR_REGION == "eu"
    error_message = "A region must call the aggregator with TLS and under its name."
  }
  assert {
    condition     = jsondecode(output.consul_server_json).acl.default_policy == "deny" && jsondecode(output.consul_client_json).acl.default_policy == "deny"
    error_message = "Consul must refuse what no policy allows."
  }
  assert {
    condition     = jsondecode(output.consul_server_json).client_addr == "127.0.0.1"
    error_message = "Consul's HTTP and DNS must be on loopback only."
  }
  assert {
    condition     = !strcontains(output.envoy_yaml, "@INSTANCE@") && strcontains(output.pop_user_data, "@INSTANCE@")
    error_message = "Only a machine puts its own id into the bootstrap."
  }
  assert {
    condition     = startswith(output.pop_user_data, "#cloud-config\n") && startswith(output.consul_user_data, "#cloud-config\n")
    error_message = "Without its first line cloud-init does not take the text."
  }
}

run "region_without_pop_and_consul" {
  variables {
    pop     = null
    consul  = null
    tls     = false
    service = { rules = "/etc/weir/rules.yaml" }
  }
  assert {
    condition     = output.envoy_yaml == null && output.consul_server_json == null && output.pop_user_data == null && output.consul_user_data == null
    error_message = "What is not asked for must not be rendered."
  }
  assert {
    condition     = !anytrue([for k in keys(output.regional_environment) : strcontains(k, "CONSUL") || strcontains(k, "TLS")])
    error_message = "Settings of Consul or TLS are left without Consul and TLS."
  }
}

run "aggregator_without_tls" {
  variables {
    pop     = null
    consul  = null
    tls     = false
    service = { rules = "/etc/weir/rules.yaml", aggregators = ["10.0.0.1:8080"] }
  }
  assert {
    condition     = output.regional_environment.WEIR_GLOBAL_PLAIN == "true" && !anytrue([for k in keys(output.regional_environment) : strcontains(k, "TLS")])
    error_message = "A region that calls the aggregator without TLS must be told that this is meant."
  }
}

run "region_that_does_not_fit_dns" {
  command = plan
  variables { region = "EU West" }
  expect_failures = [var.region]
}

run "pop_without_upstream" {
  command = plan
  variables { pop = { upstreams = [] } }
  expect_failures = [var.pop]
}

run "upstream_without_port" {
  command = plan
  variables { pop = { upstreams = ["app.internal"] } }
  expect_failures = [var.pop]
}

run "one_port_twice" {
  command = plan
  variables { pop = { upstreams = ["app.internal:8080"], health_port = 10000 } }
  expect_failures = [var.pop]
}

run "replicas_without_redis" {
  command = plan
  variables { service = { replicas = 3 } }
  expect_failures = [var.service]
}

run "two_consul_servers" {
  command = plan
  variables { consul = { servers = 2 } }
  expect_failures = [var.consul]
}

run "program_without_checksum" {
  command = plan
  variables { machine = { programs = { envoy = { uri = "s3://bucket/envoy", sha256 = "" } } } }
  expect_failures = [var.machine]
}

run "pop_that_cannot_find_its_region" {
  command = plan
  variables {
    consul  = null
    service = { rules = "/etc/weir/rules.yaml" }
  }
  expect_failures = [output.envoy_yaml]
}

run "rules_in_consul_without_consul" {
  command = plan
  variables {
    consul = null
    pop    = null
  }
  expect_failures = [output.regional_environment]
}
