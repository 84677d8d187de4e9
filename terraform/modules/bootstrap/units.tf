# Units of systemd that more than one role has, or that run now and then.
locals {
  # By its share of the machine's memory.
  consul_unit = { for memory in ["15%", "80%"] : memory => templatefile("${path.module}/templates/consul.service.tftpl", merge(var.directories, { memory = memory, hardening = local.hardening })) }

  units = { for name, text in {
    "weir-secrets.service" = <<-EOT
      [Unit]
      Description=Fetch the secrets of this machine's role

      [Service]
      Type=oneshot
      ExecStart=${var.directories.config}/fetch-secrets
    EOT
    "weir-secrets.timer"   = <<-EOT
      [Unit]
      Description=Fetch changed secrets every hour

      [Timer]
      OnActiveSec=1h
      OnUnitActiveSec=1h
      RandomizedDelaySec=5m

      [Install]
      WantedBy=timers.target
    EOT
    # Policies and tokens that the secret names. Where there is no acl.json it does nothing.
    "weir-acl.service"      = <<-EOT
      [Unit]
      Description=Make Consul's policies and tokens
      After=weir-consul.service
      ConditionPathExists=${var.directories.secrets}/acl.json
      StartLimitIntervalSec=0

      [Service]
      Type=oneshot
      User=consul
      ExecStart=${var.directories.programs}/weir admin bootstrap acl ${var.directories.secrets}/acl.json --consul 127.0.0.1:${try(var.consul.http_port, 8500)}
      Restart=on-failure
      RestartSec=10
      ${trimspace(local.hardening)}
    EOT
    "weir-snapshot.service" = <<-EOT
      [Unit]
      Description=Save a snapshot of Consul

      [Service]
      Type=oneshot
      User=consul
      ExecStart=${var.directories.config}/snapshot
      ${trimspace(local.hardening)}
    EOT
    # Every server saves one, so that each may be lost.
    "weir-snapshot.timer" = <<-EOT
      [Unit]
      Description=Save a snapshot of Consul every hour

      [Timer]
      OnCalendar=hourly
      RandomizedDelaySec=50m

      [Install]
      WantedBy=timers.target
    EOT
  } : name => { path = "/etc/systemd/system/${name}", content = text } }

  snapshot_files = [
    { path = "${var.directories.config}/snapshot", permissions = "0755", content = templatefile("${path.module}/templates/snapshot.sh.tftpl", merge(var.directories, {
    snapshots = trimsuffix(var.machine.snapshots, "/"), port = try(var.consul.http_port, 8500), instance = local.instance })) },
    local.units["weir-snapshot.service"], local.units["weir-snapshot.timer"],
  ]
}
