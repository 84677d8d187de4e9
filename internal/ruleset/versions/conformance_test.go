package versions

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/consul"
	"github.com/weirlimit/weir/internal/ruleset/amend"
	"github.com/weirlimit/weir/test/kit/fatal"
)

// everyStore runs a test with a store in Consul, and with one in a directory.
func everyStore(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Parallel()
	t.Run("consul", func(t *testing.T) { t.Parallel(); test(t, open(t, startConsul(t).Addr)) })
	t.Run("file", func(t *testing.T) { t.Parallel(); test(t, inFile(t)) })
}

// What every key-value store does.
func TestKeyValues(t *testing.T) {
	everyStore(t, func(t *testing.T, s *Store) {
		kv, ctx := s.kv, within(t)
		get := func(key string, want string) consul.Pair {
			t.Helper()
			p, err := kv.Get(ctx, key)
			if err != nil || string(p.Value) != want || p.Key != key || (p.Index == 0) != (want == "") {
				t.Errorf("%s: %.20q, index %d (%v), want %.20q", key, p.Value, p.Index, err, want)
			}
			return p
		}
		put := func(key, value string) consul.Pair {
			t.Helper()
			fatal.If(t, kv.Put(ctx, key, []byte(value)))
			return get(key, value)
		}
		commit := func(want bool, c consul.Change) {
			t.Helper()
			if done, err := kv.Commit(ctx, c); err != nil || done != want {
				t.Errorf("%v (%v), want %v", done, err, want)
			}
		}
		none := get("a/x", "")
		first := put("a/x", "1")
		second := put("a/x", "2")
		if second.Index == first.Index {
			t.Errorf("index %d twice", first.Index)
		}
		set := []consul.Pair{{Key: "a/x", Value: []byte("3")}, {Key: "a/y", Value: []byte("3")}}
		commit(false, consul.Change{Unchanged: []consul.Pair{none}, Set: set})
		commit(false, consul.Change{Unchanged: []consul.Pair{first}, Set: set})
		commit(false, consul.Change{Unchanged: []consul.Pair{second}, Existing: []string{"a/z"}, Set: set})
		get("a/x", "2")
		get("a/y", "")
		commit(true, consul.Change{Unchanged: []consul.Pair{second, {Key: "a/y"}}, Existing: []string{"a/x"}, Set: set})
		get("a/x", "3")
		commit(true, consul.Change{Delete: []string{"a/x", "a/never"}})
		get("a/x", "")
		put("a/x", "3")

		put("b", "other")
		put("a", "other")
		put("a/large", string(bytes.Repeat([]byte{7}, chunkSize)))
		want := []string{"a/large", "a/x", "a/y"}
		keys, err := kv.Keys(ctx, "a/")
		if err != nil || !slices.Equal(keys, want) {
			t.Errorf("%q (%v), want %q", keys, err, want)
		}
		pairs, err := kv.List(ctx, "a/")
		if err != nil || len(pairs) != 3 || pairs[1].Key != "a/x" || string(pairs[1].Value) != "3" || pairs[1].Index == 0 {
			t.Errorf("%d pairs (%v)", len(pairs), err)
		}
		if keys, err := kv.Keys(ctx, "c"); err != nil || len(keys) > 0 {
			t.Errorf("%q (%v)", keys, err)
		}
	})
}

// Who follows a key gets what it has, each change of it, and what it could not use again, and nothing else.
func TestFollowKey(t *testing.T) {
	everyStore(t, func(t *testing.T, s *Store) {
		ctx, stop := context.WithCancel(within(t))
		values, reject := make(chan string, 100), make(chan error, 1)
		done := make(chan error, 1)
		go func() {
			done <- s.kv.Follow(ctx, "a", func(_ context.Context, p consul.Pair) error {
				var err error
				select {
				case err = <-reject:
				default:
				}
				values <- fmt.Sprint(string(p.Value), p.Index != 0) // last: whoever has it may reject the next
				return err
			})
		}()
		next := func(want string) {
			t.Helper()
			select {
			case got := <-values:
				if got != want {
					t.Errorf("%s, want %s", got, want)
				}
			case <-time.After(30 * time.Second):
				t.Fatalf("nothing, want %s", want)
			}
		}
		next("false")
		fatal.If(t, s.kv.Put(ctx, "b", []byte("1")))
		fatal.If(t, s.kv.Put(ctx, "a", []byte("1")))
		next("1true")
		reject <- errors.New("not now")
		fatal.If(t, s.kv.Put(ctx, "a", []byte("2")))
		next("2true")
		next("2true")
		fatal.Get(s.kv.Commit(ctx, consul.Change{Delete: []string{"a"}}))(t)
		next("false")
		stop()
		if err := <-done; err != nil || len(values) > 0 {
			t.Errorf("%v, and %d more", err, len(values))
		}
	})
}

// override sets the limit of a key of rule a for an hour.
func override(key, limit string) amend.Edit {
	return amend.Edit{Entry: amend.Entry{Kind: amend.Override, Amendment: amend.Amendment{
		Rule: "a", Key: []string{key}, Limit: json.RawMessage(`"` + limit + `"`), Until: time.Now().Add(time.Hour),
	}}}
}

// remove ends the override of a key of rule a.
func remove(key string) amend.Edit {
	return amend.Edit{Entry: amend.Entry{Kind: amend.Override, Amendment: amend.Amendment{Rule: "a", Key: []string{key}}}, Remove: true}
}

// overridden demands the keys of the overrides, with their limits.
func overridden(t *testing.T, s *Store, want string) {
	t.Helper()
	_, d, err := s.List(within(t))
	fatal.If(t, err)
	var keys []string
	for _, o := range d.Entries {
		if o.Problem != "" {
			o.Key[0] = "wrong " + o.Key[0]
		}
		keys = append(keys, o.Key[0]+"="+strings.Trim(string(o.Limit), `"`))
	}
	if got := strings.Join(keys, " "); got != want {
		t.Errorf("overrides %q, want %q", got, want)
	}
}

// Amendments are versions of their own, stay when the document changes, and are gone when they end.
func TestAmend(t *testing.T) {
	t.Parallel()
	s := inFile(t)
	ctx := within(t)
	keyed := func(name string, n int) []byte {
		return fmt.Appendf(nil, "rules: [{ name: %s, key: [{ header: x }], limit: %d/1m }]\n", name, n)
	}
	if _, _, err := s.Amend(ctx, override("x", "9/1m"), by("too early")); err == nil || !strings.Contains(err.Error(), "no rules") {
		t.Errorf("%v", err)
	}
	overridden(t, s, "")
	first := apply(t, s, keyed("a", 1), by("begin"))
	amendIt := func(e amend.Edit, why string) Version {
		t.Helper()
		v, _, err := s.Amend(ctx, e, by(why))
		fatal.If(t, err)
		return v
	}
	second := amendIt(override("x", "9/1m"), "sale")
	if second.Revision <= first.Revision || second.SHA256 != first.SHA256 {
		t.Errorf("%+v after %+v", second, first)
	}
	// A program without amendments reads formats up to 2: it rejects a version with some, and keeps the rules that it has.
	if second.Format != 3 || first.Format != 2 || bytes.Contains(first.Encode(), []byte("amend")) {
		t.Errorf("formats %d and %d, %s", second.Format, first.Format, first.Encode())
	}
	amendIt(override("y", "8/1m"), "sale")
	amendIt(override("x", "7/1m"), "less")
	if _, _, err := s.Amend(ctx, remove("z"), by("wrong")); !errors.Is(err, amend.ErrNone) {
		t.Errorf("%v, want that there is none", err)
	}
	if _, _, err := s.Amend(ctx, override("z", "9/1m"), Change{Who: "bob", Why: "late", On: first.Revision}); !errors.As(err, new(*LostError)) {
		t.Errorf("%v", err)
	}
	overridden(t, s, "y=8/1m x=7/1m")
	inForce(t, s, apply(t, s, keyed("a", 2), by("other document")).Revision, keyed("a", 2))
	overridden(t, s, "y=8/1m x=7/1m")
	apply(t, s, keyed("b", 2), by("without the rule"))
	overridden(t, s, "wrong y=8/1m wrong x=7/1m")
	back := fatal.Get(s.Rollback(ctx, 0, by("back")))(t)
	amendIt(remove("x"), "over")
	overridden(t, s, "y=8/1m")
	current := amendIt(remove("y"), "over")
	if current.Amendments != nil || current.Format != format || current.RollbackTo != 0 {
		t.Errorf("%+v", current)
	}
	inForce(t, s, current.Revision, keyed("a", 2))
	if again, err := Earlier(ctx, s, 0, current); err != nil || again.Why != "without the rule" || back.RollbackTo == 0 {
		t.Errorf("one goes back to %q (%v), want another document", again.Why, err)
	}
	history, err := s.History(ctx)
	if err != nil || len(history) != 9 || history[6].Amends != "" && !strings.HasPrefix(history[6].Amends, "override of a y: 8/1m until ") || history[6].Why != "sale" || history[0].Amends != "override of a y removed" {
		t.Errorf("%+v (%v)", history, err)
	}
	for range 2 {
		fatal.If(t, s.Clean(ctx))
	}
	if c, err := s.Content(ctx, history[6]); err != nil || !strings.Contains(string(c.Amendments), "sale") {
		t.Errorf("%s (%v)", c.Amendments, err)
	}
}

// Amendments that somebody has damaged are named, and the next document repairs them.
func TestDamagedAmendments(t *testing.T) {
	t.Parallel()
	s := inFile(t)
	ctx := within(t)
	apply(t, s, document(1), by("begin"))
	v, _, err := s.Amend(ctx, amend.Edit{Entry: amend.Entry{Kind: amend.Candidate, Amendment: amend.Amendment{Rule: "a", Limit: json.RawMessage(`"2/1m"`), Until: time.Now().Add(time.Hour)}}}, by("try"))
	fatal.If(t, err)
	fatal.If(t, s.kv.Put(ctx, s.chunkKey(v.Amendments.Chunks[0]), []byte("damaged")))
	if _, err := s.Content(ctx, v); !errors.As(err, new(*DamagedError)) {
		t.Errorf("%v", err)
	}
	if _, _, err := s.List(ctx); !errors.As(err, new(*DamagedError)) {
		t.Errorf("%v", err)
	}
	if next := apply(t, s, document(2), by("repair")); next.Amendments != nil {
		t.Errorf("%+v", next)
	}
	for want, change := range map[string]func(*Text){
		"chunks": func(a *Text) { a.Chunks = nil }, "bytes": func(a *Text) { a.Size = amend.MaxBytes + 1 },
	} {
		a := *v.Amendments
		change(&a)
		wrong := v
		wrong.Amendments = &a
		if _, err := ParseVersion("manifest", wrong.Encode()); !errors.As(err, new(*DamagedError)) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
