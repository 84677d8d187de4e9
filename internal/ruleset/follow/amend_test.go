package follow

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/ruleset/amend"
	"github.com/weirlimit/weir/internal/ruleset/versions"
	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// override puts the limit of a key of rule a in force until a time.
func (w *writer) override(key string, count int, until time.Time) versions.Version {
	w.t.Helper()
	v, _, err := w.Amend(w.t.Context(), amend.Edit{Entry: amend.Entry{Kind: amend.Override, Amendment: amend.Amendment{
		Rule: "a", Key: []string{key}, Limit: json.RawMessage(fmt.Sprintf(`"%d/1m"`, count)), Until: until,
	}}}, versions.Change{Who: "ann", Why: "test"})
	fatal.If(w.t, err)
	return v
}

// own awaits rules of a revision or a later one, and returns the limit of a key of rule a; 0: it has none of its own.
func (f *follower) own(revision uint64, key string) (count int64) {
	f.t.Helper()
	proc.Eventually(f.t, time.Minute, fmt.Sprint("revision ", revision), func() bool { return f.last() != nil && f.last().Number() >= revision })
	set := f.last()
	if i, found := set.Find("a"); found {
		for _, k := range set.Rule(i).Keys {
			if k.Key[0] == key && k.Until > limit.Micros(time.Now().UnixMicro()) {
				count = k.Limit.Count
			}
		}
	}
	return count
}

// Amendments are in force in every follower at once, whatever keeps the versions, and are in its copy. Those that do not
// fit are named, and change nothing.
func TestAmendments(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]*writer{"consul": toConsul(t, consultest.Start(t, proc.LogDir(t)).Addr), "file": toFile(t)} {
		w.apply(limitOf(5))
		copied := filepath.Join(t.TempDir(), "copy")
		one, two := onStore(t, w.Store, copied), onStore(t, w.Store, "")
		fastest := time.Minute
		for i := range 5 {
			v, began := w.override("x", 10+i, time.Now().Add(time.Hour)), time.Now()
			for _, f := range []*follower{one, two} {
				if got := f.own(v.Revision, "x"); got != int64(10+i) {
					t.Errorf("%s: limit %d, want %d", name, got, 10+i)
				}
			}
			fastest = min(fastest, time.Since(began))
		}
		if fastest > time.Second {
			t.Errorf("%s: in force in two followers after at least %v", name, fastest)
		}

		v := w.apply(strings.Replace(limitOf(5), "name: a", "name: b", 1))
		if got := one.own(v.Revision, "x"); got != 0 {
			t.Errorf("%s: limit %d without the rule", name, got)
		}
		if len(one.seen.log.With("override of a x: the rules file has no rule of this name")) == 0 {
			t.Errorf("%s: %q", name, one.seen.log.With())
		}
		v = w.apply(limitOf(6))
		if got := one.own(v.Revision, "x"); got != 14 {
			t.Errorf("%s: limit %d with the rule again", name, got)
		}
		// docs/home-region.md promises that the rules are below the first empty line of the copy.
		proc.Await(t, time.Minute, name+": the copy has the rules", func() string {
			text, err := os.ReadFile(copied)
			if _, rules, _ := strings.Cut(string(text), "\n\n"); rules != limitOf(6) {
				return fmt.Sprint(string(text), err)
			}
			return ""
		})
		one.stop()
		if got := onStore(t, toFile(t).Store, copied).own(v.Revision, "x"); got != 14 {
			t.Errorf("%s: limit %d from the copy", name, got)
		}
	}
}

// An override ends to the second, and the rules in force stay the same ones. The next version is without it.
func TestAmendmentEnds(t *testing.T) {
	t.Parallel()
	w := toFile(t)
	w.apply(limitOf(5))
	f, end := onStore(t, w.Store, ""), time.Now().Add(6*time.Second).Truncate(time.Second) // as it is kept
	v := w.override("x", 9, end)
	if got := f.own(v.Revision, "x"); got != 9 && time.Now().Before(end) {
		t.Errorf("limit %d", got)
	}
	before := f.last()
	proc.Eventually(t, time.Minute, "it ends", func() bool { return f.own(v.Revision, "x") == 0 })
	if early := time.Until(end); early > 0 {
		t.Errorf("%v too early", early)
	}
	if f.last() != before {
		t.Error("other rules are in force")
	}
	if next := w.apply(limitOf(6)); next.Amendments != nil {
		t.Errorf("the next version has %+v", next.Amendments)
	}
}

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
	starts := func(limit int64) (f *follower) { // again, where the agent took longer than the start waits
		proc.Await(t, time.Minute, "a start with rules", func() string {
			if f = inConsul(t, addr, "dc1", ""); f.loaded == nil && f.limit() == limit {
				return ""
			}
			f.stop()
			return fmt.Sprintf("limit %d (%v)", f.limit(), f.loaded)
		})
		return f
	}
	f := starts(10)
	second := inConsul(t, addr, "dc1", "") // writes the same copy
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
	f = starts(13)
	if without := inConsul(t, addr, "", ""); !errors.Is(without.loaded, ErrNoRules) {
		t.Errorf("the region's own rules: %v", without.loaded)
	}
	primary.Servers[0].Start() // with what it has on disk
	f.awaitMetric(`weir_consul_ok{task="rules"} 1`)
	w.apply(limitOf(20))
	f.await(20, "")
	second.await(20, "")
}
