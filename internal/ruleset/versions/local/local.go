// Package local is a key-value store in a file of this machine, for an installation without Consul. One process at a time
// has it.
package local

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	failed "go.etcd.io/bbolt/errors"

	"github.com/weirlimit/weir/internal/consul"
)

const (
	// lockTime is how long a call waits for another process to give the file back.
	lockTime = 50 * time.Millisecond
	// lookEvery is the time between two looks at a key that is followed.
	lookEvery = 100 * time.Millisecond
)

// KV is the store in a file. Make it with [New]. It has the calls of [consul.KV], with their meaning. Each call opens the
// file, or makes it, if it is not open: what is in use by another process is used when that one ends. A value has its
// index, 8 bytes, before it.
type KV struct {
	path string

	mu      sync.Mutex
	db      *bbolt.DB // nil: it is not open
	damaged error     // what the library met, after which it may hold locks; nil: nothing
	closed  bool
}

// New makes a store of the file at path. It opens nothing.
func New(path string) *KV { return &KV{path: path} }

// Close gives the file back. Later calls fail.
func (k *KV) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed = true; k.db == nil || k.damaged != nil {
		return nil
	}
	return k.db.Close()
}

var bucket = []byte("weir")

// open opens the file. The caller holds the mutex.
func (k *KV) open() error {
	switch {
	case k.damaged != nil:
		return k.damaged
	case k.closed:
		return errors.New("is closed: the process ends")
	case k.db != nil:
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(k.path), 0o700); err != nil {
		return err
	}
	db, err := bbolt.Open(k.path, 0o600, &bbolt.Options{Timeout: lockTime})
	if errors.Is(err, failed.ErrTimeout) {
		return errors.New("is in use by another process: rules in store: are for one replica; stop the other one, or give each replica rules: consul: or a rules file")
	}
	k.db = db
	return err
}

// use runs calls in a transaction of all of them, View or Update.
func (k *KV) use(transaction func(*bbolt.DB, func(*bbolt.Tx) error) error, calls func(*bbolt.Tx) error) (err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // where the disk does not give a page
	defer func() {
		if found := recover(); found != nil { // the library panics where it meets a page that it did not write
			k.damaged = fmt.Errorf("is damaged: %v; move it away, start anew, and apply the rules again", found)
			err = k.damaged
		}
		if err != nil && !errors.Is(err, errUnmet) {
			err = fmt.Errorf("versions of the rules: %s %w", k.path, err)
		}
	}()
	if err := k.open(); err != nil {
		return err
	}
	return transaction(k.db, calls)
}

// pairOf is the pair of a key; value nil: there is no such key.
func pairOf(key, value []byte) consul.Pair {
	if len(value) < 8 {
		return consul.Pair{Key: string(key)}
	}
	return consul.Pair{Key: string(key), Index: binary.BigEndian.Uint64(value), Value: bytes.Clone(value[8:])}
}

// Get reads a key.
func (k *KV) Get(_ context.Context, key string) (consul.Pair, error) {
	p := consul.Pair{Key: key}
	err := k.use((*bbolt.DB).View, func(tx *bbolt.Tx) error {
		if b := tx.Bucket(bucket); b != nil {
			p = pairOf([]byte(key), b.Get([]byte(key)))
		}
		return nil
	})
	return p, err
}

// List reads all keys that begin with a prefix, in ascending order.
func (k *KV) List(_ context.Context, prefix string) (all []consul.Pair, err error) {
	err = k.each(prefix, func(key, value []byte) { all = append(all, pairOf(key, value)) })
	return all, err
}

// Keys are the keys that begin with a prefix, in ascending order.
func (k *KV) Keys(_ context.Context, prefix string) (all []string, err error) {
	err = k.each(prefix, func(key, _ []byte) { all = append(all, string(key)) })
	return all, err
}

func (k *KV) each(prefix string, do func(key, value []byte)) error {
	return k.use((*bbolt.DB).View, func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucket)
		if b == nil {
			return nil
		}
		c := b.Cursor()
		for key, value := c.Seek([]byte(prefix)); key != nil && bytes.HasPrefix(key, []byte(prefix)); key, value = c.Next() {
			do(key, value)
		}
		return nil
	})
}

// Put writes a key.
func (k *KV) Put(ctx context.Context, key string, value []byte) error {
	_, err := k.Commit(ctx, consul.Change{Set: []consul.Pair{{Key: key, Value: value}}})
	return err
}

// errUnmet ends a change of which something that must exist or be unchanged is not.
var errUnmet = errors.New("unmet")

// Commit makes a change as a whole or not at all, and reports whether it did. It is on the disk then.
func (k *KV) Commit(_ context.Context, c consul.Change) (bool, error) {
	err := k.use((*bbolt.DB).Update, func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists(bucket)
		if err != nil {
			return err
		}
		return change(b, &c)
	})
	if errors.Is(err, errUnmet) {
		return false, nil
	}
	return err == nil, err
}

func change(b *bbolt.Bucket, c *consul.Change) error {
	for _, p := range c.Unchanged {
		if pairOf(nil, b.Get([]byte(p.Key))).Index != p.Index {
			return errUnmet
		}
	}
	for _, key := range c.Existing {
		if b.Get([]byte(key)) == nil {
			return errUnmet
		}
	}
	index, err := b.NextSequence()
	for _, p := range c.Set {
		err = errors.Join(err, b.Put([]byte(p.Key), append(binary.BigEndian.AppendUint64(nil, index), p.Value...)))
	}
	for _, key := range c.Delete {
		err = errors.Join(err, b.Delete([]byte(key)))
	}
	return err
}

// Follow calls changed with a key's value now, at each change, and again soon for as long as changed returns an error, or
// the file is in use. It returns when ctx ends.
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
