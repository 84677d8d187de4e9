package versions

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"

	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/test/kit/consultest"
	"github.com/weirlimit/weir/test/kit/proc"
)

// consulOf is an agent of the test, and its key-value store past the package under test.
type consulOf struct {
	*consultest.Agent
	t  *testing.T
	kv *api.KV
}

func startConsul(t *testing.T) *consulOf {
	t.Helper()
	return use(t, consultest.Start(t, proc.LogDir(t)))
}

func use(t *testing.T, agent *consultest.Agent) *consulOf {
	t.Helper()
	client, err := api.NewClient(&api.Config{Address: agent.Addr})
	if err != nil {
		t.Fatal(err)
	}
	return &consulOf{Agent: agent, t: t, kv: client.KV()}
}

// open is a store at an address.
func open(t *testing.T, address string) *Store {
	t.Helper()
	s, err := Open(address, "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// keys are those of the store, without the prefix.
func (c *consulOf) keys() []string {
	c.t.Helper()
	keys, _, err := c.kv.Keys(Prefix, "", nil)
	if err != nil {
		c.t.Fatal(err)
	}
	for i := range keys {
		keys[i] = strings.TrimPrefix(keys[i], Prefix)
	}
	return keys
}

// put writes a key by hand.
func (c *consulOf) put(key, value string) {
	c.t.Helper()
	if _, err := c.kv.Put(&api.KVPair{Key: key, Value: []byte(value)}, nil); err != nil {
		c.t.Fatal(err)
	}
}

func (c *consulOf) remove(key string) {
	c.t.Helper()
	if _, err := c.kv.Delete(key, nil); err != nil {
		c.t.Fatal(err)
	}
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
	v, err := s.Apply(within(t), parsed(t, text), c)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// parsed parses a document without mistakes.
func parsed(t *testing.T, text []byte) *rulefile.Document {
	t.Helper()
	d, err := Parse("test", text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// inForce checks what is in force.
func inForce(t *testing.T, s *Store, revision uint64, want []byte) Version {
	t.Helper()
	v, err := s.Current(within(t))
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Document(within(t), v)
	if err != nil || v.Revision != revision || string(got) != string(want) {
		t.Fatalf("in force: revision %d with %d bytes (%v), want revision %d with %d bytes", v.Revision, len(got), err, revision, len(want))
	}
	return v
}
