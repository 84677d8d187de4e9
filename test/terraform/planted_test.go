package terraform

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirlimit/weir/test/kit/proc"
)

// planted are mistakes that the modules' own tests, or Terraform with the provider's schema, must
// find: in a file of the tree, one text is replaced by another.
var planted = map[string]struct {
	module, file, before, after string
	want                        string // in the output
}{
	"open admin endpoint": {"modules/bootstrap", "modules/bootstrap/envoy.tf",
		`address = "127.0.0.1", port_value = p.admin_port`, `address = "0.0.0.0", port_value = p.admin_port`, "loopback only"},
	"region without TLS": {"modules/bootstrap", "modules/bootstrap/envoy.tf",
		`[for c in var.tls ? ["tls"] : []`, `[for c in var.tls ? [] : []`, "with TLS and a certificate"},
	"open Consul": {"modules/bootstrap", "modules/bootstrap/consul.tf",
		`default_policy           = "deny"`, `default_policy           = "allow"`, "no policy allows"},
	"Redis without TLS": {"modules/region/modules/redis", "modules/region/modules/redis/main.tf",
		`transit_encryption_enabled = true`, `transit_encryption_enabled = false`, "must speak TLS"},
	"public Redis": {"modules/region/modules/redis", "modules/region/modules/redis/main.tf",
		`referenced_security_group_id = each.value`, `cidr_ipv4 = "0.0.0.0/0"`, "never to a network"},
	"Redis that evicts": {"modules/region/modules/redis", "modules/region/modules/redis/main.tf",
		`maxmemory-policy = "noeviction"`, `maxmemory-policy = "volatile-lru"`, "limits leak"},
	"service that speaks plainly to Redis": {"modules/region", "modules/bootstrap/variables.tf",
		`redis_tls      = optional(bool, true)`, `redis_tls      = optional(bool, false)`, "must speak TLS to Redis"},
	"region open to the network": {"modules/region/modules/service", "modules/region/modules/service/main.tf",
		`referenced_security_group_id = each.value`, `cidr_ipv4 = "10.0.0.0/8"`, "open to PoPs alone"},
	"second public port": {"modules/region/modules/edge", "modules/region/modules/edge/main.tf",
		`from_port         = var.pops.public_port`, `from_port         = 22`, "open to everybody"},
	"role that reads all secrets": {"modules/region/modules/service", "modules/region/modules/service/main.tf",
		`Resource = distinct(values(var.secrets))`, `Resource = "*"`, "and no others"},
	"role that reads all images": {"modules/region/modules/service", "modules/region/modules/service/main.tf",
		`Resource = repositories`, `Resource = ["*"]`, "images of this task, and no others"},
	"role for tasks of other accounts": {"modules/region/modules/service", "modules/region/modules/service/main.tf",
		`{ "aws:SourceAccount" = local.account }`, `{ "aws:SourceAccount" = "*" }`, "tasks of this account alone"},
	"key for logs of others": {"modules/region", "modules/region/main.tf",
		`log-group:/weir/*`, `*`, "logs of this account alone"},
	"task with a public address": {"modules/region/modules/service", "modules/region/modules/service/main.tf",
		`assign_public_ip = false`, `assign_public_ip = true`, "no public address"},
	"program that runs as root": {"modules/region/modules/service", "modules/region/modules/service/main.tf",
		`user    = "65532"`, `user    = "0"`, "must not run as root"},
	"replica that is replaced while Redis is away": {"modules/region/modules/service", "modules/region/modules/service/main.tf",
		`127.0.0.1:8090/healthz`, `127.0.0.1:8090/readyz`, "one that waits for Redis must not"},
	"scaling by a metric that nobody sends": {"modules/region/modules/service", "modules/region/modules/service/main.tf",
		`metric_name = module.collector.metrics.wants`, `metric_name = "decisions_per_second"`, "with another name, namespace or dimension they see nothing"},
	"alarms with another dimension": {"modules/region/modules/service", "modules/region/modules/service/main.tf",
		`dimensions          = module.collector.metrics.dimensions`, `dimensions          = { region = var.name }`, "with another name, namespace or dimension they see nothing"},
	"collector that writes everywhere": {"modules/region/modules/service", "modules/region/modules/service/main.tf",
		`Resource = "${aws_cloudwatch_log_group.metrics.arn}:*"`, `Resource = "*"`, "and do nothing else"},
	"metric of each rule": {"modules/region/modules/collector", "modules/region/modules/collector/main.tf",
		`label_set = []`, `label_set = ["rule"]`, "rules and keys would each be a metric"},
	"collector that everybody reaches": {"modules/region/modules/collector", "modules/region/modules/collector/main.tf",
		`endpoint = "127.0.0.1:${local.port}"`, `endpoint = "0.0.0.0:${local.port}"`, "on loopback only"},
	"alarms that see nothing": {"modules/region/modules/redis", "modules/region/modules/redis/main.tf",
		`CacheClusterId = each.value.node`, `ReplicationGroupId = var.name`, "with other dimensions an alarm sees none"},
	"grants for everybody": {"modules/region", "modules/region/main.tf",
		`, Condition = { Bool = { "kms:GrantIsForAWSResource" = "true" } }`, ``, "for resources of AWS alone"},
	"aggregator that cannot decrypt its secrets": {"modules/global", "modules/global/main.tf",
		`  secrets_key_arns        = var.secrets_key_arns`, ``, "must be able to decrypt its secrets"},
	"Consul that nobody finds": {"modules/region/modules/consul", "modules/region/modules/consul/main.tf",
		`"weir-consul-server"`, `"weir-consul"`, "find servers by this tag"},
	"Consul that an apply replaces": {"modules/region/modules/consul", "modules/region/modules/consul/main.tf",
		`  max_size            = var.servers
`, `  max_size            = var.servers
  instance_refresh { strategy = "Rolling" }
`, "before the next one is replaced"},
	"regions that look for Consul elsewhere": {"examples/three-regions", "examples/three-regions/main.tf",
		`tag_value=weir-eu`, `tag_value=weir`, "look for Consul's servers where those of eu are"},
	"Consul open to a network": {"modules/region/modules/consul", "modules/region/modules/consul/main.tf",
		`referenced_security_group_id = each.value.from`, `cidr_ipv4 = "10.0.0.0/8"`, "only agents may reach Consul"},
	"Consul's caller that may not call": {"modules/region/modules/consul", "modules/region/modules/consul/main.tf",
		`security_group_id            = each.value.from`, `security_group_id            = each.value.to`, "must be allowed to send"},
	"disk that is not encrypted": {"modules/region/modules/edge", "modules/region/modules/edge/main.tf",
		`encrypted   = true`, `encrypted   = false`, "encrypt their disks"},
	"metadata without a token": {"modules/region/modules/consul", "modules/region/modules/consul/main.tf",
		`http_tokens   = "required"`, `http_tokens   = "optional"`, "demand tokens for metadata"},
	"PoPs that do not see clients": {"modules/region/modules/edge", "modules/region/modules/edge/main.tf",
		`preserve_client_ip   = "true"`, `preserve_client_ip   = "false"`, "see the addresses of clients"},
	"private subnets on the internet": {"modules/region/modules/network", "modules/region/modules/network/main.tf",
		`nat_gateway_id         = aws_nat_gateway.this[each.key].id`, `gateway_id             = aws_internet_gateway.this.id`, "through NAT alone"},
	"subnets that overlap": {"modules/region/modules/network", "modules/region/modules/network/main.tf",
		`each.value + 8`, `each.value`, "must not overlap"},
	"link that leads nowhere": {"modules/global/modules/link", "modules/global/modules/link/main.tf",
		`destination_cidr_block    = var.requester.cidr`, `destination_cidr_block    = var.accepter.cidr`, "find their way back"},
	"accelerator that hides clients": {"modules/global", "modules/global/main.tf",
		`client_ip_preservation_enabled = true`, `client_ip_preservation_enabled = false`, "see the addresses of clients"},
	"aggregator without certificates of callers": {"modules/global", "modules/bootstrap/service.tf",
		`WEIR_TLS_CLIENT_CA = "${local.secrets}/ca.pem"`, `WEIR_TLS_CLIENT_CA = ""`, "must demand certificates"},
	"provider of another region": {"examples/three-regions", "examples/three-regions/main.tf",
		`providers = { aws = aws.us }`, `providers = { aws = aws.ap }`, "pass the alias of us-east-1"},
	"misspelt argument": {"modules/region/modules/redis", "modules/region/modules/redis/main.tf",
		`num_node_groups `, `number_node_groups `, "Unsupported argument"},
	"missing variable": {"examples/single-region", "examples/single-region/main.tf",
		`  redis      = var.redis
`, "", `The argument "redis" is required`},
}

func TestPlantedMistakesAreFound(t *testing.T) {
	for name, p := range planted {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			root := tree(t)
			path := filepath.Join(root, p.file)
			text, err := os.ReadFile(path)
			if err != nil || strings.Count(string(text), p.before) == 0 {
				t.Fatalf("%s has no %q: correct that here (%v)", p.file, p.before, err)
			}
			if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), p.before, p.after)), 0o644); err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(root, p.module)
			out, err := run(t, dir, "init")
			if err == nil {
				out, err = run(t, dir, "test")
			}
			if words := strings.Join(strings.Fields(out), " "); err == nil || !strings.Contains(words, p.want) {
				t.Errorf("the mistake was not found: %v, and no %q in\n%s", err, p.want, out)
			}
		})
	}
}

// Every module and example with resources of AWS has tests of its own, and mistakes are planted
// for each.
func TestEveryModuleHasPlantedMistakes(t *testing.T) {
	root := filepath.Join(proc.Root(t), "terraform")
	for _, dir := range modules(t, root) {
		if tests, _ := filepath.Glob(filepath.Join(root, dir, "tests", "*.tftest.hcl")); len(tests) == 0 {
			t.Errorf("%s has no tests", dir)
		}
		n := 0
		for _, p := range planted {
			if p.module == dir {
				n++
			}
		}
		if n == 0 {
			t.Errorf("no mistake is planted for %s", dir)
		}
	}
}
