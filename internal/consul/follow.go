package consul

import (
	"bytes"
	"context"
	"time"

	"github.com/hashicorp/consul/api"
)

const (
	// watchTime is how long Consul may keep a question that has no news. It adds a
	// sixteenth to it at random. It is short because one that is lost on its way to another
	// datacenter, which a network that drops packets does not report, is missed only after it.
	watchTime = 10 * time.Second
	// watchGrace is how much later its answer may come.
	watchGrace = 5 * time.Second
	// watchEvery is the shortest time between two questions: changes that come together
	// are one answer. followEvery is that for a key, which people change.
	watchEvery  = 100 * time.Millisecond
	followEvery = watchEvery / 2
)

// follow follows something in Consul.
type follow[T any] struct {
	task       *task
	every      time.Duration // the shortest time between two questions
	datacenter string        // empty: that of the agent
	// ask is a question that waits for an answer with another index, which also comes when something
	// else changes. Without a leader Consul answers with an error. (The KnownLeader of the meta does not
	// show it: it is false in answers that come from an agent's stream.)
	ask  func(*api.QueryOptions) (T, *api.QueryMeta, error)
	same func(a, b T) bool
	// changed takes the first answer and each that is newer than the one before and differs from it. Its
	// error is treated as one of Consul: the question is asked again soon.
	changed func(context.Context, T) error
}

// run follows until ctx ends.
func (f *follow[T]) run(ctx context.Context) error {
	var index uint64 // of the last answer; 0: answer at once
	var last T
	for known := false; ; {
		found, next, err := f.answer(ctx, index)
		newer := index == 0 || next > index // an agent whose stream from another datacenter broke may have lost what it knew
		if err == nil && newer && (!known || !f.same(found, last)) {
			err = f.changed(ctx, found)
			known, last = err == nil, found
		}
		if ctx.Err() != nil {
			return nil
		}
		f.task.note(err)
		if err != nil || next < index { // other servers, or those of before with an earlier state
			next = 0
		}
		index = next
		pause(ctx, f.task.wait(f.every), nil)
	}
}

// answer waits for an answer with another index than this one.
func (f *follow[T]) answer(ctx context.Context, index uint64) (found T, next uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, watchTime+watchTime/16+watchGrace)
	defer cancel()
	o := &api.QueryOptions{Datacenter: f.datacenter, WaitIndex: index, WaitTime: watchTime}
	found, meta, err := f.ask(o.WithContext(ctx))
	if err != nil {
		return found, 0, err
	}
	return found, max(meta.LastIndex, 1), nil
}

// Follow makes what follows a key of a store until the context ends. It calls changed with the value
// at the first answer, at each change, and again soon for as long as changed returns an error,
// which is treated as one of Consul. while Consul is unavailable, changed is not called. task names
// it in the log and in metrics.
func (a *Agent) Follow(
	task string, kv *KV, key string, changed func(context.Context, Pair) error,
) func(context.Context) error {
	f := &follow[Pair]{
		task: a.task(task), every: followEvery, datacenter: kv.datacenter, changed: changed,
		same: func(a, b Pair) bool { return a.Index == b.Index && bytes.Equal(a.Value, b.Value) },
		ask: func(o *api.QueryOptions) (Pair, *api.QueryMeta, error) {
			found, meta, err := kv.client.KV().Get(key, o)
			return pair(key, found), meta, kv.explain("read", key, err)
		},
	}
	return f.run
}
