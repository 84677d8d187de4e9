# What cloud-init does on the machines of PoPs and of Consul servers.
locals {
  # Stands for the name of the PoP. A machine puts its instance id there when it boots.
  instance = "@INSTANCE@"

  consul_unit = { path = "/etc/systemd/system/weir-consul.service", content = templatefile("${path.module}/templates/consul.service.tftpl", var.directories) }
  pop_unit = one([for p in var.pop[*] : { path = "/etc/systemd/system/weir-pop.service", content = templatefile("${path.module}/templates/weir-pop.service.tftpl",
  merge(var.directories, { admin_port = p.admin_port })) }])

  pop_services = concat([for c in var.consul[*] : "weir-consul"], ["weir-pop"])

  pop_boot = templatefile("${path.module}/templates/boot.sh.tftpl", merge(var.directories, {
    fetch    = { for name, p in var.machine.programs : name => p if name != "consul" || var.consul != null }
    secret   = var.machine.pop_secrets
    services = local.pop_services
    instance = local.instance
  }))
  consul_boot = templatefile("${path.module}/templates/boot.sh.tftpl", merge(var.directories, {
    fetch    = { for name, p in var.machine.programs : name => p if name == "consul" }
    secret   = var.machine.consul_secrets
    services = ["weir-consul"]
    instance = ""
  }))

  pop_files = concat(
    [for p in var.pop[*] : { path = "${var.directories.config}/envoy.yaml", content = yamlencode(local.envoy) }],
    [for path, text in local.sds_files : { path = path, content = text }],
    [for p in var.pop[*] : local.pop_unit],
    [for c in var.consul[*] : { path = "${var.directories.config}/consul.json", content = jsonencode(local.consul_client) }],
    [for c in var.consul[*] : local.consul_unit],
  )
  consul_files = [for c in var.consul[*] : { path = "${var.directories.config}/consul.json", content = jsonencode(local.consul_server) }]

  # Sizes of queues for many connections; the rest of the kernel's settings is good as it is.
  sysctl = { path = "/etc/sysctl.d/90-weir.conf", content = "net.core.somaxconn = 4096\nnet.ipv4.ip_local_port_range = 16384 65000\n" }

  pop_cloud_init = { for p in compact([var.pop == null ? "" : "pop"]) : p => {
    users       = local.machine_users
    write_files = concat(local.pop_files, [local.sysctl, { path = "${var.directories.config}/boot", permissions = "0755", content = local.pop_boot }])
    runcmd      = [["sysctl", "--system"], ["${var.directories.config}/boot"]]
  } }
  consul_cloud_init = { for c in compact([var.consul == null ? "" : "consul"]) : c => {
    users       = local.machine_users
    write_files = concat(local.consul_files, [local.consul_unit, { path = "${var.directories.config}/boot", permissions = "0755", content = local.consul_boot }])
    runcmd      = [["${var.directories.config}/boot"]]
  } }
  machine_users = [{ name = "weir", system = true, shell = "/usr/sbin/nologin", no_create_home = true }]
}
