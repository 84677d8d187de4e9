variable "region" {
  description = "Name of the region, as in the rules (regions) and in certificates (weir://region/NAME). It is also the Consul datacenter."
  type        = string
  nullable    = false

  validation {
    condition     = can(regex("^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$", var.region))
    error_message = "region must fit DNS: 1 to 63 of a-z, 0-9 and -, such as eu."
  }
}

variable "directories" {
  description = "Where files are on each machine: configuration, secrets (made at boot from a secret store), programs, and what programs keep through a restart."
  type = object({
    config   = optional(string, "/etc/weir")
    secrets  = optional(string, "/etc/weir/secrets")
    programs = optional(string, "/opt/weir")
    data     = optional(string, "/var/lib/weir")
  })
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for d in values(var.directories) : can(regex("^/[A-Za-z0-9._/-]+$", d))])
    error_message = "directories must be absolute paths of letters, digits and . _ / - only."
  }
}

variable "tls" {
  description = "TLS between PoP, region and aggregator. The files ca.pem, cert.pem and key.pem are in directories.secrets. Switch it off only where nothing else can reach the network."
  type        = bool
  default     = true
  nullable    = false
}

variable "otlp" {
  description = "OpenTelemetry collector for spans and metrics, as host:port, without TLS: it is beside the program. Empty: none."
  type        = string
  default     = ""
  nullable    = false

  validation {
    condition     = var.otlp == "" || can(regex("^[A-Za-z0-9.-]+:[0-9]+$", var.otlp))
    error_message = "otlp must be host:port, such as 127.0.0.1:4317, or empty."
  }
}

variable "pop" {
  description = "One point of presence: the Envoy with the filter. Null: no Envoy is rendered."
  type = object({
    name              = optional(string, "pop-1")                                 # unique per Envoy; a machine of EC2 puts its instance id here
    upstreams         = list(string)                                              # host:port of what is protected
    upstream_tls      = optional(object({ ca = string, name = string }))          # file of authorities, and the name in the certificate; null: plain
    address           = optional(string, "0.0.0.0")                               # of the listener for clients
    port              = optional(number, 10000)                                   # of the listener for clients
    health_port       = optional(number, 10002)                                   # GET /healthz for a load balancer: 200, or 503 while the PoP drains
    admin_port        = optional(number, 9901)                                    # on loopback only
    client_tls        = optional(object({ certificate = string, key = string }))  # files; null: clients speak plain HTTP
    trusted_hops      = optional(number, 0)                                       # proxies of yours in front that add X-Forwarded-For
    untrusted_headers = optional(list(string), ["x-user-id", "x-tier", "x-cost"]) # removed from what clients send
    labels            = optional(map(string), {})                                 # for rules that match or key by label
    before_rules      = optional(string, "allow")                                 # allow or deny, until the first rules arrive
    filter            = optional(string, "wasm")                                  # wasm: weir.wasm; native: weir.so
    max_heap_bytes    = optional(number, 1073741824)                              # of Envoy; it rejects requests before it has more
    replicas          = optional(list(string), [])                                # host:port of the region's replicas; empty: found through Consul's DNS
  })
  default = null

  validation {
    condition     = var.pop == null ? true : length(var.pop.upstreams) > 0
    error_message = "pop.upstreams is empty: name at least one host:port that the PoP protects."
  }
  validation {
    condition     = var.pop == null ? true : alltrue([for a in concat(var.pop.upstreams, var.pop.replicas) : can(regex("^[A-Za-z0-9.-]+:[0-9]{1,5}$", a))])
    error_message = "pop.upstreams and pop.replicas must be host:port, such as app.internal:8080."
  }
  validation {
    condition     = var.pop == null ? true : can(regex("^[A-Za-z0-9._-]{1,128}$", var.pop.name))
    error_message = "pop.name must be 1 to 128 letters, digits and . _ -."
  }
  validation {
    condition = var.pop == null ? true : (
      length(var.pop.labels) <= 16 && alltrue([for name, value in var.pop.labels : can(regex("^[A-Za-z0-9._-]{1,64}$", name)) && length(value) > 0 && length(value) <= 64])
    )
    error_message = "pop.labels must be at most 16, with names of 1 to 64 letters, digits and . _ -, and values of 1 to 64 characters."
  }
  validation {
    condition     = var.pop == null ? true : contains(["allow", "deny"], var.pop.before_rules)
    error_message = "pop.before_rules must be allow or deny."
  }
  validation {
    condition     = var.pop == null ? true : contains(["wasm", "native"], var.pop.filter)
    error_message = "pop.filter must be wasm or native."
  }
  validation {
    condition = var.pop == null ? true : (
      alltrue([for p in [var.pop.port, var.pop.health_port, var.pop.admin_port] : p >= 1024 && p < 65536 && floor(p) == p]) &&
      length(distinct([var.pop.port, var.pop.health_port, var.pop.admin_port])) == 3
    )
    error_message = "pop.port, pop.health_port and pop.admin_port must be three different ports from 1024 to 65535: Envoy's user may not open lower ones. Let the load balancer listen on 80 or 443 and lead to pop.port."
  }
  validation {
    condition     = var.pop == null ? true : var.pop.trusted_hops >= 0 && floor(var.pop.trusted_hops) == var.pop.trusted_hops
    error_message = "pop.trusted_hops must be 0 or the number of proxies of yours in front of the PoP; set too high, clients choose their own address."
  }
  validation {
    condition     = var.pop == null ? true : var.pop.max_heap_bytes >= 268435456
    error_message = "pop.max_heap_bytes must be 268435456 (256 MiB) or more: Envoy with the filter's table needs that."
  }
}

variable "service" {
  description = "weir-regional and weir-global: addresses, rules, and their Redis."
  type = object({
    address        = optional(string, "0.0.0.0") # of both ports
    port           = optional(number, 8080)      # QuotaService; all replicas of a region have the same
    admin_port     = optional(number, 8090)      # health, metrics, rules
    rules          = optional(string, "consul:") # consul: or the path of a file
    replicas       = optional(number, 1)
    redis          = optional(list(string), []) # host:port; empty: counters in memory, for one replica
    redis_mode     = optional(string, "cluster")
    redis_tls      = optional(bool, true)
    redis_tls_ca   = optional(string, "")       # file; empty: the authorities that the image trusts
    redis_username = optional(string, "")       # its password is the file redis-password in directories.secrets
    aggregators    = optional(list(string), []) # host:port; empty: found through Consul
    drain_wait     = optional(string, "6s")
    consul_token   = optional(bool, true)  # the file consul-token in directories.secrets
    key_secrets    = optional(bool, false) # the file key-secrets there, for rules with hash: true
    admin_tokens   = optional(bool, false) # the file admin-tokens there, for the admin API on the loopback address
  })
  default  = {}
  nullable = false

  validation {
    condition     = var.service.replicas >= 1 && floor(var.service.replicas) == var.service.replicas
    error_message = "service.replicas must be 1 or more."
  }
  validation {
    condition     = var.service.replicas == 1 || length(var.service.redis) > 0
    error_message = "service.replicas above 1 need service.redis: without Redis each replica would grant the whole limit."
  }
  validation {
    condition     = contains(["auto", "single", "cluster", "sentinel"], var.service.redis_mode)
    error_message = "service.redis_mode must be auto, single, cluster or sentinel."
  }
  validation {
    condition     = can(regex("^[0-9]+(ms|s|m)$", var.service.drain_wait))
    error_message = "service.drain_wait must be a duration such as 6s."
  }
}

variable "consul" {
  description = "The Consul agents of the region. Null: no Consul; then PoPs and service need addresses (pop.replicas, service.aggregators) and a rules file."
  type = object({
    primary       = optional(string, "")       # datacenter of the aggregator and the rules; empty: this one
    servers       = optional(number, 3)        # 1, 3 or 5
    join          = optional(list(string), []) # servers of this datacenter: addresses, or cloud auto-join (provider=aws ...)
    join_wan      = optional(list(string), []) # servers of the other datacenters
    bind_address  = optional(string, "{{ GetPrivateIP }}")
    http_port     = optional(number, 8500) # on loopback only
    dns_port      = optional(number, 8600) # on loopback only
    server_port   = optional(number, 8300)
    serf_lan_port = optional(number, 8301)
    serf_wan_port = optional(number, 8302)
    acl           = optional(bool, true) # tokens are in directories.secrets/consul.json
    tls           = optional(bool, true) # consul-ca.pem, consul-cert.pem and consul-key.pem in directories.secrets
  })
  default = {}

  validation {
    condition     = var.consul == null ? true : contains([1, 3, 5], var.consul.servers)
    error_message = "consul.servers must be 3 (or 5; 1 only to try it): an even number of servers tolerates no more faults than one less."
  }
  validation {
    condition     = var.consul == null ? true : can(regex("^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)?$", var.consul.primary))
    error_message = "consul.primary must be the name of a region, or empty."
  }
}

variable "machine" {
  description = "What a machine has by its own role: programs from S3, each with its SHA-256; the ARN of its secret in Secrets Manager, a JSON object of file names and contents; where its log and Consul's snapshots go."
  type = object({
    programs      = optional(map(object({ uri = string, sha256 = string })), {})
    pop_secret    = optional(string, "")
    consul_secret = optional(string, "")
    logs          = optional(string, "") # log groups of CloudWatch: LOGS/pop, LOGS/consul; empty: the journal of the machine only
    snapshots     = optional(string, "") # s3://BUCKET/PREFIX for snapshots of Consul, in the region with the rules; empty: none
    prometheus    = optional(string, "") # ARN of a workspace of Prometheus for the metrics of PoPs; needs logs. Empty: none
    volume        = optional(string, "") # device of a Consul server for directories.data, such as /dev/sdf; empty: the root volume
  })
  default  = {}
  nullable = false

  validation {
    condition     = alltrue([for name, p in var.machine.programs : contains(["envoy", "consul", "weir.wasm", "weir.so", "weir"], name) && can(regex("^s3://[^ ']+$", p.uri)) && can(regex("^[0-9a-f]{64}$", p.sha256))])
    error_message = "machine.programs may have envoy, consul, weir.wasm, weir.so and weir; each needs a uri s3://BUCKET/KEY and the sha256 of the file, 64 hexadecimal digits."
  }
  validation {
    condition     = alltrue([for arn in [var.machine.pop_secret, var.machine.consul_secret] : arn == "" || can(regex("^arn:[a-z-]+:secretsmanager:[a-z0-9-]+:[0-9]{12}:secret:[^ '\"\\\\]+$", arn))])
    error_message = "machine.pop_secret and machine.consul_secret must be the ARN of a secret in Secrets Manager: the secret itself would be in the state of Terraform."
  }
  validation {
    condition     = var.machine.prometheus == "" || var.machine.logs != ""
    error_message = "machine.prometheus needs machine.logs: the agent of CloudWatch, which sends logs, also sends the metrics."
  }
  validation {
    condition     = can(regex("^(/[A-Za-z0-9._/-]+)?$", var.machine.logs)) && can(regex("^(s3://[A-Za-z0-9._/-]+)?$", var.machine.snapshots)) && can(regex("^(/dev/[a-z0-9]+)?$", var.machine.volume))
    error_message = "machine.logs must be a name such as /weir/weir-eu, machine.snapshots s3://BUCKET/PREFIX, machine.volume a device such as /dev/sdf; or empty."
  }
}
