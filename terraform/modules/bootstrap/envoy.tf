# The bootstrap is envoy/pop.yaml of this repository with other addresses: what the end-to-end
# tests run and what runs on a machine are one file.
locals {
  shipped   = yamldecode(file("${path.module}/../../../envoy/pop.yaml"))
  in_consul = yamldecode(file("${path.module}/../../../envoy/consul.yaml"))
  traced    = yamldecode(file("${path.module}/../../../envoy/tracing.yaml"))

  listener       = one([for l in local.shipped.static_resources.listeners : l if l.name == "pop"])
  manager        = local.listener.filter_chains[0].filters[0]
  weir           = one([for f in local.manager.typed_config.http_filters : f if f.name == "weir"])
  router         = one([for f in local.manager.typed_config.http_filters : f if f.name == "envoy.filters.http.router"])
  region_cluster = one([for c in local.shipped.static_resources.clusters : c if c.name == "weir_region"])
  tracing        = var.otlp == "" ? [] : [local.traced]
  types          = "type.googleapis.com/envoy"

  # The name in the certificate of a replica, and in that of an aggregator: `make certs` makes such.
  region_certificate = "weir-regional"
  global_certificate = "weir-global"

  envoy = one([for p in var.pop[*] : merge(local.shipped, {
    node  = merge(local.shipped.node, { id = local.instance, locality = { region = var.region } })
    admin = { address = { socket_address = { address = "127.0.0.1", port_value = p.admin_port } } }
    overload_manager = merge(local.shipped.overload_manager, {
      resource_monitors = [for m in local.shipped.overload_manager.resource_monitors :
        merge(m, { typed_config = merge(m.typed_config, { for k, v in { max_heap_size_bytes = p.max_heap_bytes } : k => v if contains(keys(m.typed_config), k) }) })
      ]
    })
    static_resources = {
      listeners = [local.pop_listener, local.health_listener]
      clusters  = concat([local.upstream, local.replicas], [for t in local.tracing : merge(t.cluster, local.otlp_hosts)])
    }
  })])

  pop_listener = one([for p in var.pop[*] : merge(local.listener, {
    address = { socket_address = { address = p.address, port_value = p.port } }
    filter_chains = [merge(
      { filters = [merge(local.manager, { typed_config = local.manager_config })] },
      [for t in p.client_tls[*] : { transport_socket = {
        name = "envoy.transport_sockets.tls"
        typed_config = {
          "@type" = "${local.types}.extensions.transport_sockets.tls.v3.DownstreamTlsContext"
          common_tls_context = {
            alpn_protocols   = ["h2", "http/1.1"]
            tls_params       = { tls_minimum_protocol_version = "TLSv1_2" }
            tls_certificates = [{ certificate_chain = { filename = t.certificate }, private_key = { filename = t.key } }]
          }
        }
      } }]...
    )]
  })])

  manager_config = one([for p in var.pop[*] : merge(
    local.manager.typed_config,
    {
      xff_num_trusted_hops = p.trusted_hops
      http_filters         = concat([for t in local.tracing : t.filter], [local.filter, local.router])
      early_header_mutation_extensions = [for e in local.manager.typed_config.early_header_mutation_extensions :
        merge(e, { typed_config = merge(e.typed_config, { mutations = [for h in p.untrusted_headers : { remove = h }] }) })
      ]
    },
    [for t in local.tracing : { tracing = t.tracing }]...
  )])

  filter = one([for p in var.pop[*] : merge(local.weir, { typed_config = merge(local.weir.typed_config, {
    config = merge(local.weir.typed_config.config, {
      vm_config = merge(local.weir.typed_config.config.vm_config, { code = { local = { filename = "${var.directories.programs}/weir.wasm" } } })
      configuration = merge(local.weir.typed_config.config.configuration, {
        value = jsonencode(merge(jsondecode(local.weir.typed_config.config.configuration.value),
        { pop = local.instance, before_rules = p.before_rules, span_tags = var.otlp != "" }))
      })
    })
  }) })])

  # A listener of its own, because the admin endpoint stays on loopback. It opens when the filter
  # is compiled, so a load balancer sends nothing before.
  health_listener = one([for p in var.pop[*] : {
    name    = "health"
    address = { socket_address = { address = p.address, port_value = p.health_port } }
    filter_chains = [{ filters = [{
      name = "envoy.filters.network.http_connection_manager"
      typed_config = {
        "@type"      = "${local.types}.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"
        stat_prefix  = "health"
        route_config = { virtual_hosts = [{ name = "none", domains = ["*"], routes = [{ match = { prefix = "/" }, direct_response = { status = 404 } }] }] }
        http_filters = [
          { name = "envoy.filters.http.health_check", typed_config = {
            "@type"           = "${local.types}.extensions.filters.http.health_check.v3.HealthCheck"
            pass_through_mode = false
            headers           = [{ name = ":path", string_match = { exact = "/healthz" } }]
          } },
          local.router,
        ]
      }
    }] }]
  }])

  upstream = one([for p in var.pop[*] : merge(
    {
      name              = "upstream"
      type              = "STRICT_DNS"
      dns_lookup_family = "V4_PREFERRED"
      connect_timeout   = "1s"
      load_assignment   = merge({ cluster_name = "upstream" }, { endpoints = [{ lb_endpoints = [for a in p.upstreams : local.endpoint[a]] }] })
    },
    [for t in p.upstream_tls[*] : { transport_socket = {
      name = "envoy.transport_sockets.tls"
      typed_config = {
        "@type" = "${local.types}.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
        sni     = t.name
        common_tls_context = { validation_context = {
          trusted_ca                    = { filename = t.ca }
          match_typed_subject_alt_names = [{ san_type = "DNS", matcher = { exact = t.name } }]
        } }
      }
    } }]...
  )])

  replicas = one([for p in var.pop[*] : merge(concat(
    [local.region_cluster],
    # Found through Consul, or at the addresses that are given.
    [for c in length(p.replicas) == 0 ? ["consul"] : [] : merge(local.in_consul, {
      typed_dns_resolver_config = merge(local.in_consul.typed_dns_resolver_config, {
        typed_config = merge(local.in_consul.typed_dns_resolver_config.typed_config, {
          resolvers = [{ socket_address = { address = "127.0.0.1", port_value = var.consul == null ? 8600 : var.consul.dns_port } }]
        })
      })
      load_assignment = { cluster_name = "weir_region", endpoints = [{ lb_endpoints = [{ endpoint = { address = { socket_address = {
        address = "weir-regional-${var.region}.service.consul", port_value = var.service.port
      } } } }] }] }
    })],
    [for c in length(p.replicas) > 0 ? ["given"] : [] : {
      type              = "STRICT_DNS"
      dns_lookup_family = "V4_PREFERRED"
      load_assignment   = { cluster_name = "weir_region", endpoints = [{ lb_endpoints = [for a in p.replicas : local.endpoint[a]] }] }
    }],
    [for c in var.tls ? ["tls"] : [] : { transport_socket = {
      name = "envoy.transport_sockets.tls"
      typed_config = {
        "@type" = "${local.types}.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
        sni     = local.region_certificate
        common_tls_context = {
          tls_certificates = [{ certificate_chain = { filename = "${var.directories.secrets}/cert.pem" }, private_key = { filename = "${var.directories.secrets}/key.pem" } }]
          validation_context = {
            trusted_ca                    = { filename = "${var.directories.secrets}/ca.pem" }
            match_typed_subject_alt_names = [{ san_type = "DNS", matcher = { exact = local.region_certificate } }]
          }
        }
      }
    } }],
  )...)])

  otlp_hosts = { type = "STRICT_DNS", load_assignment = { cluster_name = "otel_collector", endpoints = [{ lb_endpoints = [for a in compact([var.otlp]) : local.endpoint[a]] }] } }

  endpoint = { for a in concat(compact([var.otlp]), try(var.pop.upstreams, []), try(var.pop.replicas, [])) : a => {
    endpoint = { address = { socket_address = { address = split(":", a)[0], port_value = tonumber(split(":", a)[1]) } } }
  } }
}
