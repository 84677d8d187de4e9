package follow

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/ruleset/versions"
	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/fatal"
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

// A copy that somebody has forged is not used while Consul answers, and with a revision from the future at no start:
// then the replica's own copy is. The next replica that has the rules writes the forged copy anew.
func TestForgedCopy(t *testing.T) {
	if testing.Short() {
		t.Skip("runs in make test-long")
	}
	t.Parallel()
	dir := proc.LogDir(t)
	primary := consultest.StartDatacenter(t, consultest.Config{Dir: dir})
	region := consultest.StartDatacenter(t, consultest.Config{Dir: dir, Name: "dc2", Primary: primary})
	addr, file := region.Servers[0].Addr, filepath.Join(t.TempDir(), "rules")
	w := toConsul(t, primary.Servers[0].Addr)
	last := w.apply(limitOf(10))
	f := inConsul(t, addr, "dc1", file)
	f.awaitMetric(`weir_rules_copy_ok{place="region"} 1`)
	f.awaitMetric(`weir_rules_copy_ok{place="disk"} 1`)
	f.stop()
	copied := versions.New(f.cfg.Agent, "", versions.CopyPrefix("eu"))
	forge := func(revision uint64) {
		t.Helper()
		document := []byte(limitOf(99))
		forged := versions.Version{Format: last.Format, Revision: revision, Who: "eve"}
		fatal.If(t, copied.Mirror(t.Context(), forged, versions.Content{Document: document}))
	}
	await := func(revision uint64) {
		t.Helper()
		proc.Eventually(t, time.Minute, "the copy is of the rules in force", func() bool {
			v, err := copied.Current(t.Context())
			return err == nil && v.Revision == revision
		})
	}
	const largest = 1<<53 - 1
	for _, revision := range []uint64{last.Revision + 1, largest} {
		forge(revision)
		f = inConsul(t, addr, "dc1", "")
		if f.loaded != nil || f.limit() != 10 {
			t.Errorf("limit %d while Consul answers, with a forged copy of revision %d (%v)", f.limit(), revision, f.loaded)
		}
		if revision == largest {
			await(last.Revision)
		}
		f.stop()
	}

	forge(largest)
	primary.Servers[0].Kill()
	if f = inConsul(t, addr, "dc1", ""); !errors.Is(f.loaded, ErrNoRules) || f.limit() != 0 {
		t.Errorf("limit %d from a forged copy (%v)", f.limit(), f.loaded)
	}
	if f = inConsul(t, addr, "dc1", file); f.loaded != nil || f.limit() != 10 {
		t.Errorf("limit %d from the replica's own copy (%v)", f.limit(), f.loaded)
	}
	await(last.Revision)
}
