package versions

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/weirlimit/weir/internal/consul"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

// Versions are kept with who, when and why, and come back as new versions.
func TestVersions(t *testing.T) {
	t.Parallel()
	s, ctx := inFile(t), within(t)
	if v, err := s.Current(ctx); !v.Zero() || err != nil {
		t.Fatalf("an empty store has revision %d (%v)", v.Revision, err)
	}
	if _, err := s.Rollback(ctx, 0, by("nothing")); !errors.Is(err, ErrNone) {
		t.Errorf("roll back without a version: %v", err)
	}
	one, two := document(10), large(6*chunkSize)
	first := apply(t, s, one, by("begin"))
	second := apply(t, s, two, by("more"))
	if len(second.Chunks) < 3 || second.Revision <= first.Revision {
		t.Errorf("%d chunks, revision %d after %d", len(second.Chunks), second.Revision, first.Revision)
	}
	inForce(t, s, second.Revision, two)
	third, err := s.Rollback(ctx, 0, by("too much"))
	if err != nil || third.RollbackTo != first.Revision {
		t.Fatalf("%+v, %v", third, err)
	}
	inForce(t, s, third.Revision, one)
	fourth, err := s.Rollback(ctx, second.Revision, by("after all"))
	if err != nil || fourth.Revision <= third.Revision {
		t.Fatalf("%+v, %v", fourth, err)
	}
	inForce(t, s, fourth.Revision, two)
	if _, err := s.Rollback(ctx, 9, by("which")); !errors.Is(err, ErrNone) {
		t.Errorf("roll back to what never was: %v", err)
	}
	var why []string
	versions, err := s.History(ctx)
	for _, v := range versions {
		why = append(why, fmt.Sprint(v.Who, v.Why, !v.When.IsZero()))
	}
	if want := []string{"annafter alltrue", "anntoo muchtrue", "annmoretrue", "annbegintrue"}; err != nil || !slices.Equal(why, want) {
		t.Errorf("history %q (%v), want %q", why, err, want)
	}
}

// A change that was made of a version, or of none, is not applied on another one, and neither is a rollback.
func TestApplyOn(t *testing.T) {
	t.Parallel()
	s, ctx := inFile(t), within(t)
	first := apply(t, s, document(1), Change{Who: "ann", Why: "begin", First: true})
	apply(t, s, document(2), Change{Who: "ann", Why: "go on", On: first.Revision})
	last := apply(t, s, document(3), by("go on"))
	on := Change{Who: "bob", Why: "late", On: first.Revision}
	for name, late := range map[string]func() (Version, error){
		"a change": func() (Version, error) { return s.Apply(ctx, parsed(t, document(4)), on) },
		"a first version": func() (Version, error) {
			return s.Apply(ctx, parsed(t, document(4)), Change{Who: "bob", Why: "late", First: true})
		},
		"a rollback":              func() (Version, error) { return s.Rollback(ctx, 0, on) },
		"a rollback to a version": func() (Version, error) { return s.Rollback(ctx, first.Revision, on) },
	} {
		_, err := late()
		if lost := new(LostError); !errors.As(err, &lost) || lost.Winner.Revision != last.Revision || !strings.Contains(err.Error(), fmt.Sprint("ann applied revision ", last.Revision)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for want, c := range map[string]Change{"author is missing": {Why: "x"}, "reason is missing": {Who: "ann", Why: " "}, "reason has": {Who: "ann", Why: strings.Repeat("x", maxWhy+1)}} {
		if _, err := s.Apply(ctx, parsed(t, document(4)), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	inForce(t, s, last.Revision, document(3))
}

// Of many writers each applies all its documents, one gets each revision, and no version is lost.
func TestManyWriters(t *testing.T) {
	t.Parallel()
	const writers, each = 8, 5
	addr := startConsul(t).Addr
	var mu sync.Mutex
	won := map[uint64]string{} // the document of each version
	proc.Together(writers, func(w int) {
		s, err := Open(addr, "")
		if err != nil {
			t.Error(err)
			return
		}
		for i := range each {
			text := document(1000*(w+1) + i)
			v, err := s.Apply(within(t), parsed(t, text), by("compete"))
			for errors.As(err, new(*LostError)) {
				v, err = s.Apply(within(t), parsed(t, text), by("compete"))
			}
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			if won[v.Revision] != "" {
				t.Errorf("revision %d was won twice", v.Revision)
			}
			won[v.Revision] = v.SHA256
			mu.Unlock()
			if err := s.Clean(within(t)); err != nil {
				t.Error(err)
			}
		}
	})
	s := open(t, addr)
	versions, err := s.History(within(t))
	if err != nil || len(versions) != writers*each || len(won) != len(versions) {
		t.Fatalf("%d versions, %d won (%v)", len(versions), len(won), err)
	}
	for i, v := range versions {
		if won[v.Revision] != v.SHA256 || i > 0 && v.Revision >= versions[i-1].Revision {
			t.Errorf("revision %d is not what its writer applied, or not smaller than the next one", v.Revision)
		}
		fatal.Get(s.Document(within(t), v))(t)
	}
}

// The last versions are kept, with their chunks and no others.
func TestClean(t *testing.T) {
	t.Parallel()
	s := inFile(t)
	var applied []Version
	for i := range kept + 5 {
		applied = append(applied, apply(t, s, document(i+1), by("count")))
	}
	s.byHand(t, s.chunkKey(sum([]byte("left by a writer that died"))), "left by a writer that died")
	fatal.If(t, s.Clean(within(t)))
	versions, err := s.History(within(t))
	if err != nil || len(versions) != kept || versions[kept-1].Revision != applied[5].Revision {
		t.Fatalf("%d versions (%v)", len(versions), err)
	}
	if n := len(s.keys(t)); n != 1+2*kept {
		t.Errorf("%d keys, want the manifest, %d versions and as many chunks: %q", n, kept, s.keys(t))
	}
	for _, v := range versions {
		fatal.Get(s.Document(within(t), v))(t)
	}
}

// The largest document there may be is applied and read again. A larger one is rejected.
func TestLargestDocument(t *testing.T) {
	if testing.Short() {
		t.Skip("runs in make test-long")
	}
	t.Parallel()
	s := open(t, startConsul(t).Addr)
	text := large(maxDocument - 30)
	v := fatal.Get(s.Apply(within(t), &rulefile.Document{Text: text}, by("begin")))(t)
	inForce(t, s, v.Revision, text)
	if _, err := Parse("rules.yaml", make([]byte, maxDocument+1)); err == nil || !strings.Contains(err.Error(), "fit into a version") {
		t.Errorf("one byte more: %v", err)
	}
}

// The audit has its entries in the order of their ids, and the last 1,000; rules are not touched by it.
func TestNotes(t *testing.T) {
	t.Parallel()
	s, ctx := inFile(t), within(t)
	v := apply(t, s, document(1), by("begin"))
	id := func(i int) string { return fmt.Sprintf("%04d", i) }
	var notes []consul.Pair
	for i := range keptNotes + consul.MaxChanges - 2 {
		notes = append(notes, consul.Pair{Key: s.auditKey(id(i)), Value: []byte(id(i))})
	}
	for some := range slices.Chunk(notes, consul.MaxChanges) {
		if done, err := s.kv.Commit(ctx, consul.Change{Set: some}); !done || err != nil {
			t.Fatal(done, err)
		}
	}
	last := keptNotes + consul.MaxChanges
	for i := last - 2; i < last; i++ {
		fatal.If(t, s.Note(ctx, id(i), []byte(id(i))))
	}
	if found, err := s.Notes(ctx, "", 2000); err != nil || len(found) != keptNotes || string(found[0]) != id(last-1) || string(found[keptNotes-1]) != id(last-keptNotes) {
		t.Errorf("%d entries (%v)", len(found), err)
	}
	if found, err := s.Notes(ctx, id(500), 2); err != nil || len(found) != 2 || string(found[0]) != id(499) || string(found[1]) != id(498) {
		t.Errorf("before 500: %s (%v)", found, err)
	}
	fatal.If(t, s.Clean(ctx))
	inForce(t, s, v.Revision, document(1))
	if found, err := s.Notes(ctx, "", 2000); err != nil || len(found) != keptNotes {
		t.Errorf("after old versions were deleted: %d entries (%v)", len(found), err)
	}
}
