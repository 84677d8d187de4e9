package follow

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/rule"
	"github.com/weirlimit/weir/internal/ruleset/amend"
	"github.com/weirlimit/weir/internal/ruleset/versions"
	"github.com/weirlimit/weir/internal/ruleset/versions/local"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/proc"
)

// keyed is a document with a rule of this name and limit.
func keyed(name string, limit int) string {
	return fmt.Sprintf("rules: [{ name: %s, key: [{ header: x }], limit: %d/1m }]\n", name, limit)
}

// amends puts an edit in force and returns the version.
func amends(t *testing.T, s *versions.Store, e amend.Edit) versions.Version {
	t.Helper()
	v, _, err := s.Amend(t.Context(), e, versions.Change{Who: "ann", Why: "test"})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func override(key string, count int) amend.Edit {
	return amend.Edit{Entry: amend.Entry{Kind: amend.Override, Amendment: amend.Amendment{
		Rule: "a", Key: []string{key}, Limit: json.RawMessage(fmt.Sprintf(`"%d/1m"`, count)), Until: time.Now().Add(time.Hour),
	}}}
}

// tier is a part of a process that follows a store.
type tier struct {
	t  *testing.T
	mu sync.Mutex
	// set has the rules in force, and revision that of them.
	set *rule.Set
	log strings.Builder
}

// startTier starts one on a store, whose rules are awaited.
func startTier(t *testing.T, s *versions.Store, file string) (_ *tier, stop func()) {
	t.Helper()
	w := &tier{t: t}
	stored := NewStore(StoreConfig{Store: s, Place: "test:", Copy: file, Log: slog.New(slog.NewTextHandler(w, nil)), Metrics: telemetry.NewRegistry("test"), Apply: func(set *rule.Set) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.set = set
		return nil
	}})
	_ = stored.Load(t.Context())
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = stored.Run(ctx, nil) })
	all.Go(func() { _ = stored.Follow(ctx) })
	stop = func() { cancel(); all.Wait() }
	t.Cleanup(stop)
	return w, stop
}

func (w *tier) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.log.Write(p)
}

// await waits for rules of a revision or a later one, and returns the limit of a key of rule a; 0: it has none of its own.
func (w *tier) await(revision uint64, key string) (count int64) {
	w.t.Helper()
	proc.Await(w.t, time.Minute, "the rules", func() string {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.set == nil || w.set.Number() < revision {
			return fmt.Sprintf("revision %d is not in force", revision)
		}
		count = 0
		if i, found := w.set.Find("a"); found {
			for _, k := range w.set.Rule(i).Keys {
				if k.Key[0] == key && k.Until > limit.Micros(time.Now().UnixMicro()) {
					count = k.Limit.Count
				}
			}
		}
		return ""
	})
	return count
}

// Amendments are in force in every follower within a second, whatever keeps the versions. Those that do not fit are
// named, and change nothing.
func TestAmendments(t *testing.T) {
	t.Parallel()
	inConsul, err := versions.Open(consultest.Start(t, proc.LogDir(t)).Addr, "")
	if err != nil {
		t.Fatal(err)
	}
	kv := local.New(filepath.Join(t.TempDir(), "rules.store"))
	for name, s := range map[string]*versions.Store{"consul": inConsul, "file": versions.On(kv)} {
		begin := func(text string) versions.Version {
			t.Helper()
			d, err := versions.Parse("test", []byte(text))
			if err != nil {
				t.Fatal(err)
			}
			v, err := s.Apply(t.Context(), d, versions.Change{Who: "ann", Why: "test"})
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
		begin(keyed("a", 5))
		copied := filepath.Join(t.TempDir(), "copy")
		one, stop := startTier(t, s, copied)
		two, _ := startTier(t, s, "")
		var slowest time.Duration
		for i := range 20 {
			v, began := amends(t, s, override("x", 10+i)), time.Now()
			for _, w := range []*tier{one, two} {
				if got := w.await(v.Revision, "x"); got != int64(10+i) {
					t.Errorf("%s: limit %d, want %d", name, got, 10+i)
				}
			}
			slowest = max(slowest, time.Since(began))
		}
		t.Logf("%s: in force in two followers after at most %v", name, slowest)
		if slowest > time.Second {
			t.Errorf("%s: in force after %v", name, slowest)
		}

		v := begin(keyed("b", 5))
		if got := one.await(v.Revision, "x"); got != 0 {
			t.Errorf("%s: limit %d without the rule", name, got)
		}
		one.mu.Lock()
		if log := one.log.String(); !strings.Contains(log, "override of a x: the rules file has no rule of this name") {
			t.Errorf("%s: %s", name, log)
		}
		one.mu.Unlock()
		v = begin(keyed("a", 6))
		if got := one.await(v.Revision, "x"); got != 29 {
			t.Errorf("%s: limit %d with the rule again", name, got)
		}
		proc.Eventually(t, time.Minute, "the copy has the version", func() bool {
			files, err := readCopy(copied)
			if err != nil {
				return false
			}
			copyOf, err := versionOf(files)
			return err == nil && copyOf.Revision == v.Revision
		})
		text, err := os.ReadFile(copied)
		if _, rules, _ := strings.Cut(string(text), "\n\n"); err != nil || rules != keyed("a", 6) {
			t.Errorf("%s: below the first empty line of the copy are not the rules, as docs/home-region.md promises: %v\n%s", name, err, text)
		}
		stop()

		empty := versions.On(local.New(filepath.Join(t.TempDir(), "empty.db")))
		late, _ := startTier(t, empty, copied)
		if got := late.await(v.Revision, "x"); got != 29 {
			t.Errorf("%s: limit %d from the copy", name, got)
		}
	}
	if err := kv.Close(); err != nil {
		t.Error(err)
	}
}

// Without rules in a store of this process it is told how to apply some there.
func TestStoreWithoutRules(t *testing.T) {
	kv := local.New(filepath.Join(t.TempDir(), "rules.store"))
	t.Cleanup(func() { _ = kv.Close() })
	w, _ := startTier(t, versions.On(kv), "")
	proc.Eventually(t, time.Minute, "the remedy", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return strings.Contains(w.log.String(), "`weir apply --admin HOST:PORT`")
	})
}

// An override ends to the second, and the rules in force stay the same ones.
func TestAmendmentEnds(t *testing.T) {
	t.Parallel()
	kv := local.New(filepath.Join(t.TempDir(), "rules.store"))
	s := versions.On(kv)
	d, err := versions.Parse("test", []byte(keyed("a", 5)))
	if err == nil {
		_, err = s.Apply(t.Context(), d, versions.Change{Who: "ann", Why: "test"})
	}
	if err != nil {
		t.Fatal(err)
	}
	w, _ := startTier(t, s, "")
	end := time.Now().Add(2 * time.Second)
	v := amends(t, s, amend.Edit{Entry: amend.Entry{Kind: amend.Override, Amendment: amend.Amendment{Rule: "a", Key: []string{"x"}, Limit: json.RawMessage(`"9/1m"`), Until: end}}})
	if got := w.await(v.Revision, "x"); got != 9 {
		t.Errorf("limit %d", got)
	}
	w.mu.Lock()
	before := w.set
	w.mu.Unlock()
	proc.Eventually(t, time.Minute, "it ends", func() bool { return w.await(v.Revision, "x") == 0 })
	if late := time.Until(end); late > time.Second { // until has whole seconds
		t.Errorf("%v too early", late)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.set != before {
		t.Error("other rules are in force")
	}
}
