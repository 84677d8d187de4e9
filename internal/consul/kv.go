package consul

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/hashicorp/consul/api"
)

// MaxChanges bounds the checks, writes and deletions of a [Change], all together.
const MaxChanges = 64

// KV is the key-value store of a datacenter. Make it with [Agent.KV]. It is safe for
// concurrent use. Errors name the agent and the key, and what to change where that can be told.
type KV struct {
	client     *api.Client
	address    string // of the agent
	datacenter string
}

// KV returns the key-value store of a datacenter; empty: the agent's own.
func (a *Agent) KV(datacenter string) *KV {
	return &KV{client: a.client, address: a.address, datacenter: datacenter}
}

// Pair is a key with its value.
type Pair struct {
	Key   string
	Value []byte
	// Index is that of the value's last change, 0 if there is no such key. No later value
	// of the key has the same.
	Index uint64
}

// Change is what [KV.Commit] does as a whole or not at all.
type Change struct {
	Unchanged []Pair   // these keys must still have this Index
	Existing  []string // these keys must exist
	Set       []Pair   // these keys get this Value
	Delete    []string
}

// query asks for an answer that has everything that was written before.
func (k *KV) query(ctx context.Context) *api.QueryOptions {
	o := &api.QueryOptions{Datacenter: k.datacenter, RequireConsistent: true}
	return o.WithContext(ctx)
}

// Get reads a key.
func (k *KV) Get(ctx context.Context, key string) (Pair, error) {
	found, _, err := k.client.KV().Get(key, k.query(ctx))
	return pair(key, found), k.explain("read", key, err)
}

func pair(key string, found *api.KVPair) Pair {
	if found == nil {
		return Pair{Key: key}
	}
	return Pair{Key: found.Key, Value: found.Value, Index: found.ModifyIndex}
}

// List reads all keys that begin with a prefix, in ascending order.
func (k *KV) List(ctx context.Context, prefix string) ([]Pair, error) {
	found, _, err := k.client.KV().List(prefix, k.query(ctx))
	pairs := make([]Pair, len(found))
	for i, p := range found {
		pairs[i] = pair(p.Key, p)
	}
	return pairs, k.explain("read", prefix, err)
}

// Keys are the keys that begin with a prefix, in ascending order.
func (k *KV) Keys(ctx context.Context, prefix string) ([]string, error) {
	keys, _, err := k.client.KV().Keys(prefix, "", k.query(ctx))
	return keys, k.explain("read", prefix, err)
}

// Put writes a key. Nothing is known about the key after an error that is no
// [RejectedError]: the answer may have been lost.
func (k *KV) Put(ctx context.Context, key string, value []byte) error {
	o := &api.WriteOptions{Datacenter: k.datacenter}
	_, err := k.client.KV().Put(&api.KVPair{Key: key, Value: value}, o.WithContext(ctx))
	return k.explain("write", key, err)
}

// Commit makes a change, which has at most [MaxChanges] parts. It returns false, and has
// changed nothing, if something that must exist or be unchanged is not. Errors are those
// of [KV.Put].
func (k *KV) Commit(ctx context.Context, c Change) (bool, error) {
	var ops api.TxnOps
	add := func(verb api.KVOp, p Pair) {
		ops = append(ops, &api.TxnOp{KV: &api.KVTxnOp{Verb: verb, Key: p.Key, Value: p.Value, Index: p.Index}})
	}
	for _, p := range c.Unchanged {
		if p.Index == 0 {
			add(api.KVCheckNotExists, Pair{Key: p.Key})
			continue
		}
		add(api.KVCheckIndex, Pair{Key: p.Key, Index: p.Index})
	}
	for _, key := range c.Existing {
		add(api.KVGet, Pair{Key: key})
	}
	for _, p := range c.Set {
		add(api.KVSet, Pair{Key: p.Key, Value: p.Value})
	}
	for _, key := range c.Delete {
		add(api.KVDelete, Pair{Key: key})
	}
	o := &api.QueryOptions{Datacenter: k.datacenter}
	done, answer, _, err := k.client.Txn().Txn(ops, o.WithContext(ctx))
	if err != nil {
		return false, k.explain("write", changed(c), err)
	}
	for _, rejected := range answer.Errors {
		if strings.Contains(rejected.What, denied) {
			return false, &RejectedError{Op: "write", Key: changed(c), Place: k.place(), Code: http.StatusForbidden, Reason: rejected.What}
		}
	}
	return done, nil
}

// denied is in each reason that is about the token.
const denied = "ermission denied"

// changed is a key that stands for a change in an error.
func changed(c Change) string {
	for _, p := range c.Set {
		return p.Key
	}
	return strings.Join(c.Delete[:min(1, len(c.Delete))], "")
}

// RejectedError is Consul's rejection of a call: nothing was changed.
type RejectedError struct {
	Op, Key string // "read" or "write", and a key of the call
	Place   string // the agent that was called
	Code    int    // HTTP status
	Reason  string // Consul's
}

func (e *RejectedError) Error() string {
	hint := ""
	switch e.Code {
	case http.StatusForbidden, http.StatusUnauthorized:
		hint = fmt.Sprintf("; give a token that may %s this key, in CONSUL_HTTP_TOKEN or CONSUL_HTTP_TOKEN_FILE", e.Op)
	case http.StatusRequestEntityTooLarge:
		hint = "; Consul's kv_max_value_size and txn_max_req_len must be at least their default, 512 KiB"
	}
	reason := strings.TrimRight(cmp.Or(e.Reason, http.StatusText(e.Code)), ".\n") // a link at the end can be opened then
	return fmt.Sprintf("consul at %s rejects the %s of %s: %d %s%s", e.Place, e.Op, e.Key, e.Code, reason, hint)
}

// failed is what a person can change so that Consul's servers do again what they are asked
// for, by a text in their answer.
var failed = []struct{ answer, hint string }{
	{"no space left on device", "the disk of a Consul server is full: make room in the file system of its data_dir"},
	{"No cluster leader", "most of Consul's servers must be up, with room in the file system of their data_dir"},
}

// explain adds to an error what was done, where, and what to change.
func (k *KV) explain(op, key string, err error) error {
	var status api.StatusError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &status) && status.Code < http.StatusInternalServerError:
		return &RejectedError{Op: op, Key: key, Place: k.place(), Code: status.Code, Reason: status.Body}
	case strings.Contains(err.Error(), denied): // what a transaction answers has no code
		return &RejectedError{Op: op, Key: key, Place: k.place(), Code: http.StatusForbidden, Reason: err.Error()}
	}
	err = fmt.Errorf("consul at %s cannot %s %s: %w", k.place(), op, key, err)
	for _, f := range failed {
		if strings.Contains(err.Error(), f.answer) {
			return fmt.Errorf("%w; %s", err, f.hint)
		}
	}
	return err
}

// place is the agent, and the datacenter if one was given.
func (k *KV) place() string {
	if k.datacenter == "" {
		return k.address
	}
	return k.address + " (" + k.datacenter + ")"
}
