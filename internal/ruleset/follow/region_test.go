package follow

import (
	"errors"
	"testing"

	"github.com/weirlimit/weir/internal/ruleset/versions"
	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/proc"
)

// A region follows the rules in another datacenter, and keeps a copy in its own: a replica
// that starts while the other is away has it.
func TestRegionCopy(t *testing.T) {
	t.Parallel()
	dir := proc.LogDir(t)
	primary := consultest.StartDatacenter(t, consultest.Config{Dir: dir})
	region := consultest.StartDatacenter(t, consultest.Config{Dir: dir, Name: "dc2", Primary: primary})
	w := toConsul(t, primary.Servers[0].Addr)
	last := w.apply(limitOf(10))
	addr := region.Servers[0].Addr
	f := inConsul(t, addr, "dc1", "")
	second := inConsul(t, addr, "dc1", "") // writes the same copy
	if f.loaded != nil {
		t.Error(f.loaded)
	}
	f.await(10, "")
	second.await(10, "")
	for i := 1; i <= 3; i++ {
		last = w.apply(limitOf(10 + i))
		f.await(int64(10+i), "")
		second.await(int64(10+i), "")
	}
	f.awaitMetric(`weir_rules_copy_ok{place="region"} 1`)
	second.awaitMetric(`weir_rules_copy_ok{place="region"} 1`)
	local := toConsul(t, addr)
	proc.Eventually(t, 0, "the copy", func() bool {
		v, err := versions.New(f.cfg.Agent, "", versions.CopyPrefix("eu")).Current(t.Context())
		return err == nil && v.Revision == last.Revision
	})
	if v, err := local.Current(t.Context()); err != nil || !v.Zero() {
		t.Errorf("the region has rules of its own: %+v, %v", v, err)
	}

	primary.Servers[0].Kill()
	f.awaitMetric(`weir_consul_ok{task="rules"} 0`)
	f.await(13, "")
	f.stop()
	f = inConsul(t, addr, "dc1", "")
	if f.loaded != nil || f.limit() != 13 {
		t.Errorf("limit %d while the primary is away (%v)", f.limit(), f.loaded)
	}
	if without := inConsul(t, addr, "", ""); !errors.Is(without.loaded, ErrNoRules) {
		t.Errorf("the region's own rules: %v", without.loaded)
	}
	primary.Servers[0].Start() // with what it has on disk
	f.awaitMetric(`weir_consul_ok{task="rules"} 1`)
	w.apply(limitOf(20))
	f.await(20, "")
	second.await(20, "")
}
