// Package local is a key-value store in a directory of this machine, for an installation without Consul. One process at a time
// uses it.
package local

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/consul"
	"github.com/weirlimit/weir/internal/ruleset/rulefile"
	"github.com/weirlimit/weir/internal/statefile"
)

// lookEvery is the time between two looks at a key that is followed.
const lookEvery = 100 * time.Millisecond

// KV is the store in a directory, which has a file for each key. Make it with [New]. It has the calls of [consul.KV], with
// their meaning. Each call locks the directory, or makes it, if that is not done yet: what is in use by another process is
// used when that one ends. The index of a value is a part of its hash.
type KV struct {
	dir string

	mu     sync.Mutex
	lock   io.Closer // nil: another process may have it
	closed bool
	writes sync.Mutex
}

// New makes a store of a directory. It opens nothing.
func New(dir string) *KV { return &KV{dir: dir} }

// Close gives the directory back. Later calls fail.
func (k *KV) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	lock := k.lock
	if k.lock, k.closed = nil, true; lock == nil {
		return nil
	}
	return lock.Close()
}

// open locks the directory, if that is not done yet.
func (k *KV) open() (err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return errors.New("versions of the rules: the process ends")
	}
	if k.lock != nil {
		return nil
	}
	if err = os.MkdirAll(k.dir, 0o700); err == nil {
		k.lock, err = statefile.Lock(filepath.Join(k.dir, "store"))
	}
	if errors.As(err, new(*statefile.InUseError)) {
		err = fmt.Errorf("%w: rules in store: are for one replica; stop the other one, or give each replica rules: consul: or a rules file", err)
	}
	return err
}

func (k *KV) file(key string) string { return filepath.Join(k.dir, url.PathEscape(key)) }

// Get reads a key.
func (k *KV) Get(_ context.Context, key string) (consul.Pair, error) {
	p := consul.Pair{Key: key}
	if err := k.open(); err != nil {
		return p, err
	}
	value, err := os.ReadFile(k.file(key))
	if err != nil {
		return p, unlessNone(err)
	}
	hash := sha256.Sum256(value)
	return consul.Pair{Key: key, Index: binary.BigEndian.Uint64(hash[:]) | 1, Value: value}, nil
}

// unlessNone is an error, unless it is that there is no such file.
func unlessNone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Keys are the keys that begin with a prefix, in ascending order.
func (k *KV) Keys(_ context.Context, prefix string) (all []string, err error) {
	if err := k.open(); err != nil {
		return nil, err
	}
	files, err := os.ReadDir(k.dir)
	for _, f := range files {
		if key, wrong := url.PathUnescape(f.Name()); wrong == nil && strings.HasPrefix(key, prefix) {
			all = append(all, key)
		}
	}
	slices.Sort(all)
	return all, err
}

// List reads all keys that begin with a prefix, in ascending order.
func (k *KV) List(ctx context.Context, prefix string) (all []consul.Pair, err error) {
	keys, err := k.Keys(ctx, prefix)
	for _, key := range keys {
		if p, wrong := k.Get(ctx, key); wrong != nil {
			err = wrong
		} else if p.Index != 0 { // or it was deleted just now
			all = append(all, p)
		}
	}
	return all, err
}

// Put writes a key.
func (k *KV) Put(ctx context.Context, key string, value []byte) error {
	_, err := k.Commit(ctx, consul.Change{Set: []consul.Pair{{Key: key, Value: value}}})
	return err
}

// Commit makes a change, and reports whether it did: not if something that must exist or be unchanged is not. It is on the
// disk then. The first of c.Set is written last: with an error, or if the machine ends, that one is as it was.
func (k *KV) Commit(ctx context.Context, c consul.Change) (bool, error) {
	k.writes.Lock()
	defer k.writes.Unlock()
	for _, p := range c.Unchanged {
		if now, err := k.Get(ctx, p.Key); err != nil || now.Index != p.Index {
			return false, err
		}
	}
	for _, key := range c.Existing {
		if p, err := k.Get(ctx, key); err != nil || p.Index == 0 {
			return false, err
		}
	}
	err := k.open()
	for _, p := range slices.Backward(c.Set) {
		if err == nil {
			err = rulefile.Replace(k.file(p.Key), p.Value, 0o600)
		}
	}
	for _, key := range c.Delete {
		if err == nil {
			err = unlessNone(os.Remove(k.file(key)))
		}
	}
	if err == nil {
		err = statefile.SyncDir(k.dir)
	}
	return err == nil, err
}

// Follow calls changed with a key's value now, at each change, and again soon for as long as changed returns an error, or
// the directory is in use. It returns when ctx ends.
func (k *KV) Follow(ctx context.Context, key string, changed func(context.Context, consul.Pair) error) error {
	for last, known := uint64(0), false; ; {
		p, err := k.Get(ctx, key)
		if err == nil && (!known || p.Index != last) {
			last, known = p.Index, changed(ctx, p) == nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(lookEvery):
		}
	}
}
