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
      c.name != "weir_region" || try(
        c.transport_socket.typed_config.common_tls_context.tls_certificate_sds_secret_configs[0].sds_config.path_config_source.path == "/etc/weir/sds/certificate.yaml" &&
        c.transport_socket.typed_config.common_tls_context.combined_validation_context.default_validation_context.match_typed_subject_alt_names == [{ san_type = "URI", matcher = { exact = "weir://region/eu" } }],
    false)])
    error_message = "PoPs must call replicas of their own region alone, with TLS and a certificate that is read again, unless that is switched off."
  }
  assert {
    condition = {
      for path, text in output.sds_files : path => one(yamldecode(text).resources)
      } == {
      "/etc/weir/sds/authorities.yaml" = {
        "@type"            = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret", name = "authorities"
        validation_context = { trusted_ca = { filename = "/etc/weir/secrets/ca.pem" } }
      }
      "/etc/weir/sds/certificate.yaml" = {
        "@type"         = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret", name = "certificate"
        tls_certificate = { certificate_chain = { filename = "/etc/weir/secrets/cert.pem" }, private_key = { filename = "/etc/weir/secrets/key.pem" } }
      }
    }
    error_message = "Envoy must have the files through which it reads its certificates, and no others."
  }
  assert {
    condition     = output.regional_environment.WEIR_TLS_CLIENT_CA == "/etc/weir/secrets/ca.pem" && output.global_environment.WEIR_TLS_CLIENT_CA == "/etc/weir/secrets/ca.pem"
    error_message = "Both services must demand certificates of their callers."
  }
  assert {
    condition     = !contains(keys(output.regional_environment), "WEIR_KEY_SECRETS")
    error_message = "Without key_secrets there may be no file of that name."
  }
  assert {
    condition     = output.regional_environment.WEIR_AGGREGATOR_TLS == "true" && output.regional_environment.WEIR_REGION == "eu"
    error_message = "A region must call the aggregator with TLS and under its name."
  }
  assert {
    condition     = jsondecode(output.consul_server_json).acl.default_policy == "deny" && jsondecode(output.consul_client_json).acl.default_policy == "deny"
    error_message = "Consul must reject what no policy allows."
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
    condition = toset([for f in yamldecode(output.pop_user_data).write_files : "${basename(f.path)} ${regex("User=(\\w+)", f.content)[0]}" if endswith(f.path, ".service")]) == toset(["weir-pop.service weir", "weir-consul.service consul"]) && (
    toset(yamldecode(output.pop_user_data).users[*].name) == toset(["weir", "consul"]))
    error_message = "Envoy and Consul's agent must run as users of their own, which the machine makes."
  }
  assert {
    condition = alltrue([for f in concat(yamldecode(output.pop_user_data).write_files, yamldecode(output.consul_user_data).write_files) :
    strcontains(f.content, "LogRateLimitIntervalSec=1s\nLogRateLimitBurst=1000000\n") && strcontains(f.content, "StartLimitIntervalSec=0") && strcontains(f.content, "MemoryMax=") if endswith(f.path, "weir-pop.service") || endswith(f.path, "weir-consul.service")])
    error_message = "No line of a log may be dropped, and what ends must be started again, for ever, with bounded memory."
  }
  assert {
    condition     = strcontains(output.pop_user_data, "eu-pop-@INSTANCE@") && strcontains(output.consul_user_data, "eu-consul-@INSTANCE@")
    error_message = "An agent must be named by its region and its role: its token may register nothing else."
  }
  assert {
    condition     = !strcontains(output.pop_user_data, "cloudwatch") && !strcontains(output.consul_user_data, "snapshot")
    error_message = "Logs and snapshots must go nowhere unless a place is named."
  }
  assert {
    condition     = startswith(output.pop_user_data, "#cloud-config\n") && startswith(output.consul_user_data, "#cloud-config\n")
    error_message = "Without its first line cloud-init does not take the text."
  }
}

run "every_option" {
  variables {
    otlp = "127.0.0.1:4317"
    pop = {
      upstreams    = ["app.internal:8080"]
      labels       = { tier = "edge" }
      upstream_tls = { ca = "/etc/weir/upstream.pem", name = "app.internal" }
      client_tls   = { certificate = "/etc/weir/secrets/client-cert.pem", key = "/etc/weir/secrets/client-key.pem" }
      replicas     = ["10.0.0.1:8080", "10.0.0.2:8080"]
    }
  }
  assert {
    condition = (
      [for l in yamldecode(output.envoy_yaml).static_resources.listeners : l if l.name == "pop"][0].filter_chains[0].transport_socket.typed_config.common_tls_context.tls_certificate_sds_secret_configs[0].name == "client-certificate" &&
      one(yamldecode(output.sds_files["/etc/weir/sds/client-certificate.yaml"]).resources).tls_certificate.private_key.filename == "/etc/weir/secrets/client-key.pem"
    )
    error_message = "The certificate for clients must be read again when it is replaced."
  }
  assert {
    condition     = { for c in yamldecode(output.envoy_yaml).static_resources.clusters : c.name => length(c.load_assignment.endpoints[0].lb_endpoints) } == { upstream = 1, weir_region = 2, otel_collector = 1 }
    error_message = "All that is given must be there."
  }
  assert {
    condition = [for f in [for l in yamldecode(output.envoy_yaml).static_resources.listeners : l if l.name == "pop"][0].filter_chains[0].filters[0].typed_config.http_filters :
    jsondecode(f.typed_config.config.configuration.value) if f.name == "weir"][0] == { region_cluster = "weir_region", pop = "pop-1", region = "eu", labels = { tier = "edge" }, before_rules = "allow", span_tags = true }
    error_message = "The filter must know its region and its labels."
  }
}

run "no_option" {
  variables {
    tls     = false
    consul  = null
    pop     = { upstreams = ["app.internal:8080"], replicas = ["10.0.0.1:8080"], untrusted_headers = [] }
    service = { rules = "/etc/weir/rules.yaml" }
  }
  assert {
    condition     = !strcontains(output.envoy_yaml, "transport_socket") && !strcontains(output.envoy_yaml, "otel") && !strcontains(output.envoy_yaml, "dns_resolver") && length(output.sds_files) == 0
    error_message = "What is switched off must not be in the bootstrap."
  }
}

run "machines" {
  variables {
    machine = {
      pop_secret    = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:weir/eu/pop-AbCdEf"
      consul_secret = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:weir/eu/consul-AbCdEf"
      logs          = "/weir/weir-eu"
      snapshots     = "s3://backups/weir"
      volume        = "/dev/sdf"
    }
  }
  assert {
    condition     = strcontains(output.pop_user_data, "/weir/weir-eu/pop") && strcontains(output.consul_user_data, "/weir/weir-eu/consul")
    error_message = "Each role must log to its own group."
  }
  assert {
    condition     = strcontains(output.pop_user_data, "secret:weir/eu/pop-AbCdEf") && !strcontains(output.pop_user_data, "weir/eu/consul") && !strcontains(output.consul_user_data, "weir/eu/pop")
    error_message = "Each role must fetch its own secret."
  }
  assert {
    condition     = yamldecode(output.consul_user_data).mounts[0][0] == "/dev/sdf" && yamldecode(output.consul_user_data).mounts[0][1] == "/var/lib/weir" && yamldecode(output.pop_user_data).users != null
    error_message = "A Consul server's data must be on the volume that is named."
  }
  assert {
    condition     = alltrue([for f in yamldecode(output.consul_user_data).write_files : strcontains(f.content, "\nRequiresMountsFor=/var/lib/weir\n") if endswith(f.path, "weir-consul.service")])
    error_message = "After a reboot Consul must not start before its volume is mounted."
  }
  assert {
    condition     = strcontains(output.consul_user_data, "weir-snapshot.timer") && !strcontains(output.pop_user_data, "weir-snapshot.timer")
    error_message = "Consul's servers must save snapshots."
  }
}

run "native_filter" {
  variables { pop = { upstreams = ["app.internal:8080"], filter = "native" } }
  assert {
    condition = [for f in [for l in yamldecode(output.envoy_yaml).static_resources.listeners : l if l.name == "pop"][0].filter_chains[0].filters[0].typed_config.http_filters :
    f.typed_config.dynamic_module_config.module.local.filename if f.name == "weir"][0] == "/opt/weir/weir.so"
    error_message = "The filter must be the native module."
  }
}

run "unknown_filter" {
  command = plan
  variables { pop = { upstreams = ["app.internal:8080"], filter = "wasi" } }
  expect_failures = [var.pop]
}

run "too_many_labels" {
  command = plan
  variables { pop = { upstreams = ["app.internal:8080"], labels = { for i in range(17) : "l${i}" => "v" } } }
  expect_failures = [var.pop]
}

run "a_label_without_a_value" {
  command = plan
  variables { pop = { upstreams = ["app.internal:8080"], labels = { tier = "" } } }
  expect_failures = [var.pop]
}

run "a_secret_in_place_of_its_name" {
  command = plan
  variables { machine = { pop_secret = "the secret itself" } }
  expect_failures = [var.machine]
}

run "snapshots_to_no_bucket" {
  command = plan
  variables { machine = { snapshots = "backups" } }
  expect_failures = [var.machine]
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

run "secrets_of_keys" {
  variables { service = { rules = "/etc/weir/rules.yaml", key_secrets = true } }
  assert {
    condition     = output.regional_environment.WEIR_KEY_SECRETS == "/etc/weir/secrets/key-secrets" && output.global_environment.WEIR_KEY_SECRETS == "/etc/weir/secrets/key-secrets"
    error_message = "Both services must read the secrets under which keys are hashed."
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
    condition     = output.regional_environment.WEIR_AGGREGATOR_PLAIN == "true" && !anytrue([for k in keys(output.regional_environment) : strcontains(k, "TLS")])
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

run "port_that_envoy_may_not_open" {
  command = plan
  variables { pop = { upstreams = ["app.internal:8080"], port = 443 } }
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

run "metrics" {
  variables {
    pop     = { upstreams = ["app.internal:8080"] }
    machine = { logs = "/weir/weir-eu", prometheus = "arn:aws:aps:eu-central-1:123456789012:workspace/ws-1a2b" }
    service = { admin_tokens = true }
  }
  assert {
    condition     = strcontains(output.pop_user_data, "append-config -m ec2 -s -c 'file:/etc/weir/collector.yaml'") && !strcontains(output.consul_user_data, "append-config")
    error_message = "The agent of a PoP must scrape Envoy; a Consul server has no such metrics."
  }
  assert {
    condition     = output.regional_environment.WEIR_ADMIN_TOKENS == "/etc/weir/secrets/admin-tokens" && output.regional_environment.WEIR_ADMIN_LOCAL == "true"
    error_message = "The admin API must be open on the loopback address, for tokens only."
  }
}

run "metrics_without_an_agent" {
  command = plan
  variables { machine = { prometheus = "arn:aws:aps:eu-central-1:123456789012:workspace/ws-1a2b" } }
  expect_failures = [var.machine]
}
