package consul

import (
	"bytes"
	"context"
)

// followEvery is the shortest time between two questions for a key. People change it.
const followEvery = watchEvery / 2

// Follow follows a key. Make it with [Agent.Follow].
type Follow struct {
	kv      *KV
	key     string
	changed func(context.Context, Pair) error
	task    *task
}

// Follow makes what follows a key of a store. [Follow.Run] calls changed with the value at
// the first answer, at each change, and again soon for as long as changed returns an error,
// which is treated as one of Consul. While Consul is away, changed is not called. task names
// it in the log and in metrics.
func (a *Agent) Follow(task string, kv *KV, key string, changed func(context.Context, Pair) error) *Follow {
	return &Follow{kv: kv, key: key, changed: changed, task: a.task(task)}
}

// Run follows the key until ctx ends.
func (f *Follow) Run(ctx context.Context) error {
	var index uint64 // of the last answer; 0: answer at once
	var last Pair    // that changed took
	for known := false; ; {
		found, next, err := f.ask(ctx, index)
		if err == nil && (!known || found.Index != last.Index || !bytes.Equal(found.Value, last.Value)) {
			err = f.changed(ctx, found)
			known, last = err == nil, found
		}
		if ctx.Err() != nil {
			return nil
		}
		f.task.note(err)
		index = following(index, next, err)
		pause(ctx, f.task.wait(followEvery), nil)
	}
}

// ask waits for an answer with another index, which also comes when another key changes.
func (f *Follow) ask(ctx context.Context, index uint64) (Pair, uint64, error) {
	o, cancel := blocking(ctx, f.kv.datacenter, index)
	defer cancel()
	found, meta, err := f.kv.client.KV().Get(f.key, o)
	if err != nil {
		return Pair{}, 0, f.kv.explain("read", f.key, err)
	}
	return pair(f.key, found), max(meta.LastIndex, 1), nil
}
