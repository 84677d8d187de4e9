# What cloud-init does on the machines of PoPs and of Consul servers.
locals {
  # Stands for the name of the PoP. A machine puts its instance id there when it boots.
  instance = "@INSTANCE@"

  # weir runs Envoy, consul runs the agent: neither reads the other's secrets.
  machine_users = [for name in ["weir", "consul"] : { name = name, system = true, shell = "/usr/sbin/nologin", no_create_home = true }]

  agent_secrets = [for c in var.consul[*] : concat(["consul.json"], c.tls ? ["consul-ca.pem", "consul-cert.pem", "consul-key.pem"] : [])]
  own_secrets   = concat(var.tls ? ["ca.pem", "cert.pem", "key.pem"] : [], [for f in local.client_files : trimprefix(f, "${var.directories.secrets}/") if startswith(f, "${var.directories.secrets}/")])
  client_files  = flatten([for p in var.pop[*] : [for t in p.client_tls[*] : [t.certificate, t.key]]])

  # Each role: what it fetches, what runs there all the time, what runs there once, and its log.
  roles = {
    pop = {
      programs = concat(["envoy"], [for p in var.pop[*] : p.filter == "native" ? "weir.so" : "weir.wasm"], [for c in var.consul[*] : "consul"])
      secret   = var.machine.pop_secret
      needed   = flatten([local.own_secrets, local.agent_secrets])
      named    = concat(["envoy.yaml"], [for c in var.consul[*] : "consul.json"], local.scraped ? ["collector.yaml"] : [])
      services = concat([for c in var.consul[*] : "weir-consul"], ["weir-pop"])
      once     = []
      volume   = ""
    }
    consul = {
      programs = ["consul", "weir"]
      secret   = var.machine.consul_secret
      needed   = flatten(local.agent_secrets)
      named    = concat(["consul.json"], local.snapshots ? ["snapshot"] : [])
      services = concat(["weir-consul"], local.snapshots ? ["weir-snapshot.timer"] : [])
      once     = ["weir-acl"]
      volume   = var.machine.volume
    }
  }
  snapshots = var.machine.snapshots != ""
  scraped   = var.machine.prometheus != ""
  hardening = file("${path.module}/templates/hardening.tftpl")

  # The files of either role.
  machine_files = { for role, r in local.roles : role => concat(
    [
      { path = "${var.directories.config}/boot", permissions = "0755", content = templatefile("${path.module}/templates/boot.sh.tftpl", merge(var.directories, {
        fetch    = { for name, p in var.machine.programs : name => p if contains(r.programs, name) }
        secret   = r.secret
        named    = r.named
        units    = concat(r.services, r.secret == "" ? [] : ["weir-secrets.timer"])
        once     = r.once
        volume   = r.volume
        logs     = var.machine.logs != ""
        scraped  = local.scraped && role == "pop"
        instance = local.instance
      })) },
    ],
    r.secret == "" ? [] : [
      { path = "${var.directories.config}/fetch-secrets", permissions = "0755", content = templatefile("${path.module}/templates/fetch-secrets.py.tftpl",
      { secret = r.secret, secrets = var.directories.secrets, needed = jsonencode(r.needed) }) },
      local.units["weir-secrets.service"], local.units["weir-secrets.timer"],
    ],
    var.machine.logs == "" ? [] : [{ path = "${var.directories.config}/cloudwatch.json", content = jsonencode({ logs = { logs_collected = { journald = { collect_list = [{
      log_group_name  = "${var.machine.logs}/${role}"
      log_stream_name = "{instance_id}"
      units           = concat([for s in r.services : "${s}.service" if !endswith(s, ".timer")], [for u in ["weir-secrets", "weir-acl", "weir-snapshot", "cloud-final"] : "${u}.service"])
    }] } } } }) }],
  ) }

  pop_cloud_init = { for role in var.pop == null ? [] : ["pop"] : role => {
    users = local.machine_users
    write_files = concat(local.machine_files[role], [local.sysctl],
      [for p in var.pop[*] : { path = "${var.directories.config}/envoy.yaml", content = yamlencode(local.envoy) }],
      [for path, text in local.sds_files : { path = path, content = text }],
      [for on in local.scraped ? [true] : [] : { path = "${var.directories.config}/collector.yaml", content = jsonencode(module.prometheus.config) }],
      [for p in var.pop[*] : { path = "/etc/systemd/system/weir-pop.service", content = templatefile("${path.module}/templates/weir-pop.service.tftpl",
      merge(var.directories, { admin_port = p.admin_port, memory = "80%", hardening = local.hardening })) }],
      [for c in var.consul[*] : { path = "${var.directories.config}/consul.json", content = jsonencode(merge(local.consul_client, { node_name = "${var.region}-pop-${local.instance}" })) }],
      [for c in var.consul[*] : { path = "/etc/systemd/system/weir-consul.service", content = local.consul_unit["15%"] }],
    )
    runcmd = [["sysctl", "--system"], ["${var.directories.config}/boot"]]
  } }

  consul_cloud_init = { for role in var.consul == null ? [] : ["consul"] : role => {
    users = local.machine_users
    write_files = concat(local.machine_files[role], local.snapshots ? local.snapshot_files : [], [
      { path = "${var.directories.config}/consul.json", content = jsonencode(merge(local.consul_server, { node_name = "${var.region}-consul-${local.instance}" })) },
      { path = "/etc/systemd/system/weir-consul.service", content = local.consul_unit["80%"] },
      local.units["weir-acl.service"],
    ])
    # Made once: what is on the volume stays when the machine starts again.
    fs_setup = [for v in compact([var.machine.volume]) : { device = v, filesystem = "xfs", label = "weir", overwrite = false }]
    mounts   = [for v in compact([var.machine.volume]) : [v, var.directories.data, "xfs", "defaults,nofail", "0", "2"]]
    runcmd   = [["${var.directories.config}/boot"]]
  } }

  # Sizes of queues for many connections; the rest of the kernel's settings is good as it is.
  sysctl = { path = "/etc/sysctl.d/90-weir.conf", content = "net.core.somaxconn = 4096\nnet.ipv4.ip_local_port_range = 16384 65000\n" }
}

# The metrics of a PoP: those of Envoy, which has the filter's.
module "prometheus" {
  source = "../prometheus"

  workspace = var.machine.prometheus
  job       = "weir-pop"
  target    = "127.0.0.1:${try(var.pop.admin_port, 9901)}"
  path      = "/stats/prometheus"
  region    = var.region
  instance  = local.instance
}
