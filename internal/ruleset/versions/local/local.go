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
	"sync"
	"time"

	"go.etcd.io/bbolt"
	failed "go.etcd.io/bbolt/errors"

	"github.com/weirlimit/weir/internal/consul"
)

const (
	// lockTime is how long a call waits for another process to give the file back.
	lockTime = 50 * time.Millisecond
	// retryTime is the time between two tries to follow a key after an error.
	retryTime = time.Second
)

// InUseError is that another process has the file.
type InUseError struct{ Path string }

func (e *InUseError) Error() string {
	return e.Path + " is in use by another process: rules in store: are for one replica; stop the other one, or give each replica rules: consul: or a rules file"
}

// KV is the store in a file. Make it with [New]. It has the calls of [consul.KV], with their meaning. The file is opened,
// or made, at the first call that finds it free. A value has its index, 8 bytes, before it.
type KV struct {
	path string

	mu      sync.Mutex
	db      *bbolt.DB     // nil: it is not open
	changed chan struct{} // is closed at the next change
}

// New makes a store of the file at path. It opens nothing.
func New(path string) *KV { return &KV{path: path, changed: make(chan struct{})} }

// Open opens the file, if it is not open. The error is an [InUseError] if another process has it.
func (k *KV) Open() error {
	_, err := k.open()
	return err
}

// Close gives the file back.
func (k *KV) Close() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.db == nil {
		return nil
	}
	err := k.db.Close()
	k.db = nil
	return err
}

var bucket = []byte("weir")

func (k *KV) open() (*bbolt.DB, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.db != nil {
		return k.db, nil
	}
	err := os.MkdirAll(filepath.Dir(k.path), 0o700)
	var db *bbolt.DB
	if err == nil {
		err = undamaged(func() (err error) {
			db, err = bbolt.Open(k.path, 0o600, &bbolt.Options{Timeout: lockTime})
			return err
		})
	}
	if err == nil {
		err = undamaged(func() error {
			return db.Update(func(tx *bbolt.Tx) error {
				_, err := tx.CreateBucketIfNotExists(bucket)
				return err
			})
		})
		if err != nil {
			_ = db.Close() // nothing was written
		}
	}
	switch {
	case errors.Is(err, failed.ErrTimeout):
		return nil, &InUseError{k.path}
	case err != nil:
		return nil, fmt.Errorf("rules: %s: %w", k.path, err)
	}
	k.db = db
	return db, nil
}

// read runs calls that read, which see one state of the store.
func (k *KV) read(calls func(*bbolt.Bucket)) error {
	db, err := k.open()
	if err == nil {
		err = undamaged(func() error {
			return db.View(func(tx *bbolt.Tx) error {
				calls(tx.Bucket(bucket))
				return nil
			})
		})
	}
	if err != nil {
		return fmt.Errorf("cannot read the versions of the rules: %w", err)
	}
	return nil
}

// undamaged runs calls of the library, which panics where it meets a page that it did not write.
func undamaged(calls func() error) (err error) {
	defer func() {
		if found := recover(); found != nil {
			err = fmt.Errorf("the file is damaged: %v; move it away, and apply the rules again", found)
		}
	}()
	return calls()
}

// pairOf is the pair of a key; value nil: there is no such key.
func pairOf(key, value []byte) consul.Pair {
	if len(value) < 8 {
		return consul.Pair{Key: string(key)}
	}
	return consul.Pair{Key: string(key), Index: binary.BigEndian.Uint64(value), Value: bytes.Clone(value[8:])}
}

// Get reads a key.
func (k *KV) Get(_ context.Context, key string) (p consul.Pair, err error) {
	err = k.read(func(b *bbolt.Bucket) { p = pairOf([]byte(key), b.Get([]byte(key))) })
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
	return k.read(func(b *bbolt.Bucket) {
		c := b.Cursor()
		for key, value := c.Seek([]byte(prefix)); bytes.HasPrefix(key, []byte(prefix)) && key != nil; key, value = c.Next() {
			do(key, value)
		}
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
	db, err := k.open()
	if err == nil {
		err = undamaged(func() error {
			return db.Update(func(tx *bbolt.Tx) error { return change(tx.Bucket(bucket), &c) })
		})
	}
	switch {
	case errors.Is(err, errUnmet):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("cannot write the versions of the rules: %w", err)
	}
	k.mu.Lock()
	close(k.changed)
	k.changed = make(chan struct{})
	k.mu.Unlock()
	return true, nil
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
		if err == nil {
			err = b.Put([]byte(p.Key), append(binary.BigEndian.AppendUint64(nil, index), p.Value...))
		}
	}
	for _, key := range c.Delete {
		if err == nil {
			err = b.Delete([]byte(key))
		}
	}
	return err
}

// Follow calls changed with a key's value now, at each change, and again soon for as long as changed returns an error, or
// the file is in use. It returns when ctx ends.
func (k *KV) Follow(ctx context.Context, key string, changed func(context.Context, consul.Pair) error) error {
	for last, known := uint64(0), false; ctx.Err() == nil; {
		k.mu.Lock()
		news := k.changed
		k.mu.Unlock()
		p, err := k.Get(ctx, key)
		if err == nil && (!known || p.Index != last) {
			err = changed(ctx, p)
			last, known = p.Index, err == nil
		}
		var again <-chan time.Time
		if err != nil {
			again = time.After(retryTime)
		}
		select {
		case <-ctx.Done():
		case <-news:
		case <-again:
		}
	}
	return nil
}
