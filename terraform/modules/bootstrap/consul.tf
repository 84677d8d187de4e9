locals {
  consul_primary = var.consul == null ? "" : coalesce(var.consul.primary, var.region)

  # Of every agent. Gossip key and tokens are in directories.secrets/consul.json.
  consul_agent = one([for c in var.consul[*] : merge(concat(
    [{
      datacenter           = var.region
      primary_datacenter   = local.consul_primary
      data_dir             = "${var.directories.data}/consul"
      bind_addr            = c.bind_address
      client_addr          = "127.0.0.1"
      retry_join           = c.join
      leave_on_terminate   = true
      disable_update_check = true
      ports = {
        http     = c.http_port, dns = c.dns_port, server = c.server_port
        serf_lan = c.serf_lan_port, serf_wan = c.serf_wan_port, grpc = -1, grpc_tls = -1
      }
    }],
    [for on in c.acl ? [true] : [] : { acl = {
      enabled                  = on
      default_policy           = "deny"
      down_policy              = "extend-cache"
      enable_token_replication = true # so that tokens are good while the primary is away
    } }],
    [for on in c.tls ? [true] : [] : { tls = {
      defaults = {
        ca_file         = "${var.directories.secrets}/consul-ca.pem"
        cert_file       = "${var.directories.secrets}/consul-cert.pem"
        key_file        = "${var.directories.secrets}/consul-key.pem"
        verify_incoming = on
        verify_outgoing = on
      }
      https        = { verify_incoming = false } # the port is not open
      internal_rpc = { verify_server_hostname = on }
    } }],
  )...)])

  consul_client = one([for c in var.consul[*] : merge(local.consul_agent, { server = false })])
  consul_server = one([for c in var.consul[*] : merge(local.consul_agent, {
    server           = true
    bootstrap_expect = c.servers
    retry_join_wan   = c.join_wan
    # A server that is asked to stop hands over, and its place stays: a new machine takes it.
    leave_on_terminate = false
    autopilot          = { cleanup_dead_servers = true, last_contact_threshold = "1s" }
    performance        = { raft_multiplier = 1 }
  })])
}
