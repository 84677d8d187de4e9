package versions

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/consul"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/ruleset/versions/local"
	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/fatal"
	"github.com/weirlimit/weir/test/kit/proc"
)

func startConsul(t *testing.T) *consultest.Agent {
	t.Helper()
	return consultest.Start(t, proc.LogDir(t))
}

// inFile is a store in a directory.
func inFile(t *testing.T) *Store {
	t.Helper()
	kv := local.New(filepath.Join(t.TempDir(), "state", "rules.store"))
	t.Cleanup(func() { fatal.If(t, kv.Close()) })
	return On(kv)
}

// open is a store at an address.
func open(t *testing.T, address string) *Store {
	t.Helper()
	return fatal.Get(Open(address, ""))(t)
}

// keys are those of the store.
func (s *Store) keys(t *testing.T) []string {
	t.Helper()
	return fatal.Get(s.kv.Keys(within(t), Prefix))(t)
}

// byHand writes a key past the store, or removes it if value is empty.
func (s *Store) byHand(t *testing.T, key, value string) {
	t.Helper()
	err := s.kv.Put(within(t), key, []byte(value))
	if value == "" {
		_, err = s.kv.Commit(within(t), consul.Change{Delete: []string{key}})
	}
	fatal.If(t, err)
}

// document is one with this limit.
func document(limit int) []byte {
	return fmt.Appendf(nil, "rules: [{ name: a, key: [client_ip], limit: %d/1m }]\n", limit)
}

// large is a document of more than size bytes, in which no two chunks are the same. Its gzip is half as large.
func large(size int) []byte {
	text := document(7)
	random := rand.New(rand.NewPCG(1, 2))
	for len(text) < size {
		text = fmt.Appendf(text, "# %016x\n", random.Uint64())
	}
	return text
}

// within bounds the calls of a test.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func by(why string) Change { return Change{Who: "ann", Why: why} }

// apply applies a document, which must work.
func apply(t *testing.T, s *Store, text []byte, c Change) Version {
	t.Helper()
	return fatal.Get(s.Apply(within(t), parsed(t, text), c))(t)
}

// parsed parses a document without mistakes.
func parsed(t *testing.T, text []byte) *rulefile.Document {
	t.Helper()
	return fatal.Get(Parse("test", text))(t)
}

// inForce checks what is in force.
func inForce(t *testing.T, s *Store, revision uint64, want []byte) {
	t.Helper()
	v := fatal.Get(s.Current(within(t)))(t)
	got, err := s.Document(within(t), v)
	if err != nil || v.Revision != revision || string(got) != string(want) {
		t.Fatalf("in force: revision %d with %d bytes (%v), want revision %d with %d bytes", v.Revision, len(got), err, revision, len(want))
	}
}
