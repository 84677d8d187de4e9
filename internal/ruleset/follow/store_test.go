package follow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/consul"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/versions"
	"github.com/weirlimit/weir/internal/ruleset/versions/local"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// follower is a tier's part that follows stored rules, and what came of it.
type follower struct {
	*Stored
	seen
	t      *testing.T
	loaded error
	stop   func()
}

// inConsul starts a follower of the rules in a datacenter of Consul, whose copy is a file.
func inConsul(t *testing.T, addr, datacenter, file string) *follower {
	t.Helper()
	metrics := telemetry.NewRegistry("test")
	agent := fatal.Get(consul.New(consul.Config{Address: addr}, metrics, slog.New(slog.DiscardHandler)))(t)
	return start(t, metrics, StoreConfig{Store: versions.New(agent, datacenter, versions.Prefix), Agent: agent, Datacenter: datacenter, Region: "eu", Copy: file})
}

// onStore starts a follower of a store.
func onStore(t *testing.T, s *versions.Store, file string) *follower {
	t.Helper()
	return start(t, telemetry.NewRegistry("test"), StoreConfig{Store: s, Place: "test:", Copy: file})
}

func start(t *testing.T, metrics *telemetry.Registry, c StoreConfig) *follower {
	t.Helper()
	f := &follower{t: t}
	f.metrics = metrics
	c.Log, c.Metrics, c.Apply = slog.New(slog.NewTextHandler(&f.seen.log, nil)), metrics, f.seen.apply
	f.Stored = NewStore(c)
	f.loaded = f.Load(t.Context())
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { _ = f.Run(ctx, nil) })
	all.Go(func() { _ = f.Follow(ctx) })
	f.stop = func() { cancel(); all.Wait() }
	t.Cleanup(f.stop)
	return f
}

// await waits until rules with this limit are in force, and the problem with newer ones, if any, has this text.
func (f *follower) await(limit int64, problem string) {
	f.t.Helper()
	proc.Await(f.t, time.Minute, "the rules", func() string {
		got := f.Problem()
		if f.limit() != limit || (got == "") != (problem == "") || !strings.Contains(got, problem) {
			return fmt.Sprintf("limit %d and problem %q, want %d and %q", f.limit(), got, limit, problem)
		}
		return ""
	})
	f.awaitMetric(fmt.Sprintf("weir_rules_config_ok %d", map[bool]int{true: 1}[problem == ""]))
}

func (f *follower) awaitMetric(line string) {
	f.t.Helper()
	proc.Eventually(f.t, time.Minute, line, func() bool { return f.metric(line) })
}

// writer writes to a store as people do.
type writer struct {
	*versions.Store
	t  *testing.T
	kv *local.KV // the store is on it; nil: in Consul
}

// toConsul writes to a store in Consul.
func toConsul(t *testing.T, addr string) *writer {
	t.Helper()
	store := fatal.Get(versions.Open(addr, ""))(t)
	return &writer{store, t, nil}
}

// toFile writes to a new store of this process.
func toFile(t *testing.T) *writer {
	kv := local.New(filepath.Join(t.TempDir(), "rules.store"))
	t.Cleanup(func() { _ = kv.Close() })
	return &writer{versions.On(kv), t, kv}
}

// limitOf is a document with rule a, which has this limit.
func limitOf(n int) string {
	return fmt.Sprintf("rules: [{ name: a, key: [{ header: x }], limit: %d/1m }]\n", n)
}

func (w *writer) apply(text string) versions.Version {
	w.t.Helper()
	d, err := rulefile.Read("test", []byte(text))
	if err != nil { // a mistake that `weir rules apply` would reject
		d = &rulefile.Document{Text: []byte(text)}
	}
	return fatal.Get(w.Apply(w.t.Context(), d, versions.Change{Who: "ann", Why: "test"}))(w.t)
}

func (w *writer) put(key string, value []byte) {
	w.t.Helper()
	fatal.If(w.t, w.kv.Put(w.t.Context(), key, value))
}

// What is applied comes into force; what cannot be used is named, and changes nothing.
func TestFollow(t *testing.T) {
	t.Parallel()
	w := toFile(t)
	f := onStore(t, w.Store, filepath.Join(t.TempDir(), "rules"))
	if !errors.Is(f.loaded, ErrNoRules) {
		t.Errorf("loaded from an empty store: %v", f.loaded)
	}
	f.await(0, "`weir rules apply --admin HOST:PORT`")
	first := w.apply(limitOf(10))
	f.await(10, "")
	f.awaitMetric(`weir_rules_copy_ok{place="disk"} 1`)
	w.apply(limitOf(20))
	f.await(20, "")

	w.apply("rules: [{ name: a, colour: red }]\n")
	f.await(20, ":1:")
	w.put(versions.Prefix+"manifest", []byte("{}"))
	f.await(20, "is not what Weir writes")
	good := w.apply(limitOf(30))
	f.await(30, "")

	broken := good
	broken.Revision, broken.Chunks = good.Revision+1, []string{"none"}
	w.put(versions.Prefix+"manifest", broken.Encode())
	f.await(30, "weir/rules/chunks/none is missing")
	w.put(versions.Prefix+"manifest", first.Encode()) // as a backup would have it
	f.await(30, "is older than revision")
	fatal.Get(w.kv.Commit(t.Context(), consul.Change{Delete: []string{versions.Prefix + "manifest"}}))(t)
	f.await(30, "weir/rules/manifest is missing")
	w.apply(limitOf(40))
	f.await(40, "")
}

// Rules from the future change nothing, neither at a start nor later, until they are from the future no longer. The next
// version is in force all the same.
func TestFromTheFuture(t *testing.T) {
	t.Parallel()
	w := toFile(t)
	w.apply(limitOf(10))
	f := onStore(t, w.Store, "")
	poison := func(revision uint64) {
		t.Helper()
		v := w.apply(limitOf(99)) // for the chunks
		f.await(99, "")
		w.apply(limitOf(10))
		f.await(10, "")
		v.Revision = revision
		w.put(versions.Prefix+"manifest", v.Encode())
	}
	const isAhead = "ahead of this machine's clock"
	poison(1<<53 - 1)
	f.await(10, isAhead)
	if late := onStore(t, w.Store, ""); !errors.Is(late.loaded, ErrNoRules) || late.limit() != 0 {
		t.Errorf("limit %d at a start (%v)", late.limit(), late.loaded)
	}
	w.apply(limitOf(20))
	f.await(20, "")
	poison(1<<53 - 1)
	f.await(10, isAhead)
	fatal.Get(w.Rollback(t.Context(), 0, versions.Change{Who: "ann", Why: "repair"}))(t)
	f.await(10, "")
	if v, err := w.Current(t.Context()); err != nil || time.UnixMicro(int64(v.Revision)).After(time.Now()) {
		t.Errorf("revision %d after that (%v)", v.Revision, err)
	}
	poison(uint64(time.Now().Add(time.Minute + time.Second).UnixMicro()))
	f.await(99, "")
}

// A damaged copy is not used, and written anew.
func TestDamagedCopy(t *testing.T) {
	t.Parallel()
	w, file := toFile(t), filepath.Join(t.TempDir(), "rules")
	w.apply(limitOf(10))
	f := onStore(t, w.Store, file)
	f.awaitMetric(`weir_rules_copy_ok{place="disk"} 1`)
	f.stop()
	whole := fatal.Get(os.ReadFile(file))(t)
	empty := toFile(t)
	for name, text := range map[string]string{
		"torn": string(whole[:len(whole)-5]), "another kind": limitOf(10), "empty": "",
		"changed": strings.Replace(string(whole), "10/1m", "99/1m", 1),
	} {
		fatal.If(t, os.WriteFile(file, []byte(text), 0o600))
		one := onStore(t, empty.Store, file)
		if !errors.Is(one.loaded, ErrNoRules) || one.limit() != 0 {
			t.Errorf("%s: limit %d (%v)", name, one.limit(), one.loaded)
		}
		one.stop()
	}
	w.apply(limitOf(20))
	f = onStore(t, w.Store, file)
	f.awaitMetric(`weir_rules_copy_ok{place="disk"} 1`)
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "20/1m") {
		t.Errorf("%s (%v)", text, err)
	}
}

// A copy that cannot be written is reported, and the rules are in force all the same.
func TestCopyFails(t *testing.T) {
	t.Parallel()
	w := toFile(t)
	w.apply(limitOf(10))
	dir := filepath.Join(t.TempDir(), "a file")
	fatal.If(t, os.WriteFile(dir, nil, 0o600))
	f := onStore(t, w.Store, filepath.Join(dir, "rules"))
	f.await(10, "")
	w.apply(limitOf(20))
	f.await(20, "")
	f.awaitMetric(`weir_rules_copy_ok{place="disk"} 0`)
	fatal.If(t, os.Remove(dir))
	f.awaitMetric(`weir_rules_copy_ok{place="disk"} 1`)
}
