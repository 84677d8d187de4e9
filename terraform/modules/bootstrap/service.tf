# Environment of weir-regional and weir-global; docs/operations.md and their --help explain each.
locals {
  secrets = var.directories.secrets

  service_common = merge(concat(
    [{
      WEIR_LISTEN       = "${var.service.address}:${var.service.port}"
      WEIR_ADMIN_LISTEN = "${var.service.address}:${var.service.admin_port}"
      WEIR_RULES        = var.service.rules
      WEIR_REPLICAS     = tostring(var.service.replicas)
      WEIR_DRAIN_WAIT   = var.service.drain_wait
      WEIR_LOG_FORMAT   = "json"
    }],
    [for c in var.consul[*] : merge(
      { WEIR_CONSUL = "127.0.0.1:${c.http_port}", WEIR_CONSUL_PRIMARY = local.consul_primary },
      { for k, v in { WEIR_CONSUL_TOKEN_FILE = "${local.secrets}/consul-token" } : k => v if c.acl && var.service.consul_token }
    )],
    [{ for k, v in { WEIR_RULES_COPY = "${var.directories.data}/rules" } : k => v if startswith(var.service.rules, "consul:") }],
    [{ for k, v in { WEIR_STATE = "${var.directories.data}/state" } : k => v if length(var.service.redis) == 0 }],
    [for on in length(var.service.redis) > 0 ? [true] : [] : merge(
      { WEIR_REDIS = join(",", var.service.redis), WEIR_REDIS_MODE = var.service.redis_mode, WEIR_REDIS_TLS = tostring(var.service.redis_tls) },
      { for k, v in { WEIR_REDIS_TLS_CA = var.service.redis_tls_ca } : k => v if v != "" && var.service.redis_tls },
      { for k, v in { WEIR_REDIS_USERNAME = var.service.redis_username, WEIR_REDIS_PASSWORD_FILE = "${local.secrets}/redis-password" } : k => v if var.service.redis_username != "" }
    )],
    [{ for k, v in {
      WEIR_TLS_CERT      = "${local.secrets}/cert.pem"
      WEIR_TLS_KEY       = "${local.secrets}/key.pem"
      WEIR_TLS_CLIENT_CA = "${local.secrets}/ca.pem"
    } : k => v if var.tls }],
    [{ for k, v in { WEIR_KEY_SECRETS = "${local.secrets}/key-secrets" } : k => v if var.service.key_secrets }],
    [{ for k, v in { WEIR_ADMIN_TOKENS = "${local.secrets}/admin-tokens", WEIR_ADMIN_LOCAL = "true" } : k => v if var.service.admin_tokens }],
    [{ for k, v in { WEIR_OTLP = "http://${var.otlp}" } : k => v if var.otlp != "" }],
  )...)

  regional_environment = merge(
    local.service_common,
    { WEIR_REGION = var.region },
    { for k, v in { WEIR_AGGREGATOR = join(",", var.service.aggregators) } : k => v if v != "" },
    { for k, v in {
      WEIR_AGGREGATOR_TLS      = "true"
      WEIR_AGGREGATOR_TLS_CA   = "${local.secrets}/ca.pem"
      WEIR_AGGREGATOR_TLS_NAME = local.global_certificate
      WEIR_AGGREGATOR_TLS_CERT = "${local.secrets}/cert.pem"
      WEIR_AGGREGATOR_TLS_KEY  = "${local.secrets}/key.pem"
    } : k => v if var.tls && (var.consul != null || length(var.service.aggregators) > 0) },
    { for k, v in { WEIR_AGGREGATOR_PLAIN = "true" } : k => v if !var.tls && (var.consul != null || length(var.service.aggregators) > 0) }
  )
}
