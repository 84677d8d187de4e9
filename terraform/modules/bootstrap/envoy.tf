# The bootstrap is envoy/pop.yaml of the repository with other addresses: what the end-to-end tests run
# and what runs on a machine are one file. envoy/generate made the templates of it, one for each module of the filter.
locals {
  # Where the certificate of an aggregator has its name.
  global_certificate = "weir-global"

  envoy = one([for p in var.pop[*] : yamldecode(templatefile(p.filter == "native" ? "${path.module}/templates/native.yaml.tftpl" : "${path.module}/templates/envoy.yaml.tftpl", merge(var.directories, {
    pop       = p
    name      = local.instance
    region    = var.region
    tls       = var.tls
    otlp      = var.otlp != ""
    mutations = [for h in p.untrusted_headers : { remove = h }]
    upstreams = [for a in p.upstreams : local.endpoint[a]]
    replicas  = [for a in length(p.replicas) > 0 ? p.replicas : [local.in_consul] : local.endpoint[a]]
    collector = [for a in compact([var.otlp]) : local.endpoint[a]]
    dns_port  = var.consul == null ? 8600 : var.consul.dns_port
    plugin    = jsonencode({ region_cluster = "weir_region", pop = local.instance, region = var.region, labels = p.labels, before_rules = p.before_rules, span_tags = var.otlp != "" })
  })))])

  # Where Consul's DNS has the replicas of the region.
  in_consul = "weir-regional-${var.region}.service.consul:${var.service.port}"

  endpoint = { for a in toset(concat([local.in_consul], compact([var.otlp]), try(var.pop.upstreams, []), try(var.pop.replicas, []))) : a => {
    endpoint = { address = { socket_address = { address = split(":", a)[0], port_value = tonumber(split(":", a)[1]) } } }
  } }

  # Envoy reads certificates through these files, and again when theirs are replaced: see envoy/certificate.yaml.
  sds_files = { for name, secret in merge(
    { for name, secret in {
      certificate = { tls_certificate = { certificate_chain = { filename = "${var.directories.secrets}/cert.pem" }, private_key = { filename = "${var.directories.secrets}/key.pem" } } }
      authorities = { validation_context = { trusted_ca = { filename = "${var.directories.secrets}/ca.pem" } } }
    } : name => secret if var.pop != null && var.tls },
    { for t in try(var.pop.client_tls, null)[*] : "client-certificate" => {
      tls_certificate = { certificate_chain = { filename = t.certificate }, private_key = { filename = t.key } }
    } },
    ) : "${var.directories.config}/sds/${name}.yaml" => yamlencode({ resources = [merge(
      { "@type" = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret", name = name }, secret,
  )] }) }
}
