package follow

import (
	"testing"

	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/proc"
)

// The rights that docs/changing-rules.md states are enough to apply rules, to follow them and to keep
// the region's copy. Without them Consul's rejection is not taken for a store without rules.
func TestRights(t *testing.T) {
	if testing.Short() {
		t.Skip("runs in make test-long")
	}
	dir := proc.LogDir(t)
	primary := consultest.StartDatacenter(t, consultest.Config{Dir: dir, ACL: true})
	region := consultest.StartDatacenter(t, consultest.Config{Dir: dir, Name: "dc2", Primary: primary})
	t.Setenv("CONSUL_HTTP_TOKEN", primary.NewToken(`key_prefix "weir/rules/" { policy = "write" }`))
	w := toConsul(t, primary.Servers[0].Addr)
	w.apply(limitOf(10))

	t.Setenv("CONSUL_HTTP_TOKEN", primary.NewToken(`key_prefix "weir/rules/" { policy = "read" } key_prefix "weir/rules-copy/eu/" { policy = "write" }`))
	f := inConsul(t, region.Servers[0].Addr, "dc1", "")
	f.await(10, "")
	w.apply(limitOf(20))
	f.await(20, "")
	f.awaitMetric(`weir_rules_copy_ok{place="region"} 1`)
	f.awaitMetric(`weir_consul_ok{task="rules"} 1`)

	t.Setenv("CONSUL_HTTP_TOKEN", primary.NewToken(`key_prefix "weir/rules/" { policy = "read" }`))
	reader := inConsul(t, region.Servers[0].Addr, "dc1", "")
	reader.await(20, "")
	reader.awaitMetric(`weir_rules_copy_ok{place="region"} 0`)

	t.Setenv("CONSUL_HTTP_TOKEN", primary.NewToken(`service_prefix "" { policy = "read" }`))
	stranger := inConsul(t, region.Servers[0].Addr, "dc1", "")
	stranger.awaitMetric(`weir_consul_ok{task="rules"} 0`)
	stranger.await(0, ErrNoRules.Error())
}
