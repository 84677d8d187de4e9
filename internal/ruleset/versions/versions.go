// Package versions keeps the versions of the rules in a key-value store: Consul's or, for a single process, a directory.
//
//	weir/rules/manifest         the version in force, a [Version] as JSON
//	weir/rules/versions/REVISION  the same for each of the last 100 versions
//	weir/rules/chunks/SHA256    a part of a document's gzip, which never changes
//	weir/rules/audit/ID         an entry of the audit log of the admin API; the last 1,000 are kept
//
// A writer first writes the missing chunks, then swaps the manifest and adds the version in one transaction. It fails unless
// the manifest is as the writer read it and all chunks are there. So a reader of the manifest finds all of its chunks, a
// writer that stops between two steps leaves only unused chunks, and of two writers one gets an error. Old versions and
// unused chunks are deleted after that, in transactions that fail if the manifest has been swapped meanwhile. A version may
// have a second document, of package amend, in a separate chunk.
//
//	version.go  a version, and its document in chunks
//	read.go     the version in force, and earlier ones
//	apply.go    a new version
//	amend.go    overrides and candidates beside the document
//	clean.go    deletion of old versions and unused chunks
//	audit.go    other changes, and their authors
//	followers.go  the programs that take the rules from here
package versions

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/weirlimit/weir/internal/consul"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/telemetry"
	"github.com/weirlimit/weir/internal/wire"
)

// Prefix begins every key of the store that people write to.
const Prefix = "weir/rules/"

// CopyPrefix begins every key of a region's copy of a store in another datacenter.
func CopyPrefix(region string) string { return "weir/rules-copy/" + region + "/" }

// KV is a key-value store, such as that of Consul, whose [consul.KV] describes the calls. All that one caller has written
// others read. It is safe for concurrent use.
type KV interface {
	Get(ctx context.Context, key string) (consul.Pair, error)
	List(ctx context.Context, prefix string) ([]consul.Pair, error)
	Keys(ctx context.Context, prefix string) ([]string, error)
	Put(ctx context.Context, key string, value []byte) error
	Commit(ctx context.Context, c consul.Change) (bool, error)
	// Follow calls changed with a key's value now, at each change, and again soon for as long as changed returns an
	// error. It returns when ctx ends.
	Follow(ctx context.Context, key string, changed func(context.Context, consul.Pair) error) error
}

// inConsul is the store of Consul.
type inConsul struct {
	*consul.KV
	agent *consul.Agent
}

func (c inConsul) Follow(ctx context.Context, key string, changed func(context.Context, consul.Pair) error) error {
	return c.agent.Follow("rules", c.KV, key, changed)(ctx)
}

// Store has the versions of the rules below a prefix of a key-value store. It is safe for
// concurrent use, also by several processes if the key-value store is.
type Store struct {
	agent  *consul.Agent // nil: there are no followers in other processes
	kv     KV
	prefix string
}

// New makes a store of the keys below a prefix, such as [Prefix], in a datacenter; an empty one is the
// agent's own. It makes no call.
func New(a *consul.Agent, datacenter, prefix string) *Store {
	return &Store{agent: a, kv: inConsul{a.KV(datacenter), a}, prefix: prefix}
}

// On makes a store of the keys below [Prefix] for this process alone.
func On(kv KV) *Store { return &Store{kv: kv, prefix: Prefix} }

// Open makes a store for a program that has no other use for Consul: the one below [Prefix]
// in a datacenter, of which the agent at an address, host:port, answers; an empty
// datacenter is the agent's own.
func Open(address, datacenter string) (*Store, error) {
	a, err := consul.New(consul.Config{Address: address}, telemetry.NewRegistry(""), slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return New(a, datacenter, Prefix), nil
}

// manifestKey is the key that changes with each new version.
func (s *Store) manifestKey() string { return s.prefix + "manifest" }

// Follow calls changed with the manifest as [KV] does.
func (s *Store) Follow(ctx context.Context, changed func(context.Context, consul.Pair) error) error {
	return s.kv.Follow(ctx, s.manifestKey(), changed)
}

func (s *Store) versionKey(revision uint64) string {
	return fmt.Sprintf("%sversions/%016d", s.prefix, revision)
}

func (s *Store) chunkKey(sum string) string { return s.prefix + "chunks/" + sum }

// Parse reads a document as every tier does before it puts it in force. name is only used in
// errors, which have a line for each mistake.
func Parse(name string, document []byte) (*rulefile.Document, error) {
	return ParseFiles(name, []rulefile.File{{Name: name, Data: document}})
}

// ParseFiles is Parse for a rules file, or the files of a directory, as [rulefile.ReadFiles] reads them.
func ParseFiles(name string, files []rulefile.File) (*rulefile.Document, error) {
	size := 0
	for _, f := range files {
		size += len(f.Data)
	}
	if size > maxDocument {
		return nil, fmt.Errorf("%s: %d bytes, at most %d fit into a version; make fewer or shorter rules, or give each region a file", name, size, maxDocument)
	}
	d, err := rulefile.Merge(name, files)
	if err != nil {
		return nil, err
	}
	if d.Set.Stated() {
		return nil, fmt.Errorf("%s: revision: is for rules files; in Consul, or in store:, each version gets one of its own: remove this field", name)
	}
	if n := len(d.Set.Encode()); n > wire.MaxCompiled {
		return nil, fmt.Errorf("%s: %d bytes in compiled form, at most %d fit into one message; make fewer or shorter rules", name, n, wire.MaxCompiled)
	}
	return d, nil
}
