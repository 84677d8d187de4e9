package leasecache

import (
	"bytes"
	"container/heap"
	"slices"
	"sync"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
)

const (
	// mostDue is how many asks are sent at once.
	mostDue = 256
	// mostReturns bounds the give-backs that wait; more are dropped, which wastes
	// their units and no more.
	mostReturns = 10_000
)

// reason is why a key is on the agenda.
type reason uint8

const (
	none   = reason(lease.NoAsk)
	topUp  = reason(lease.TopUp)
	ahead  = reason(lease.Ahead)
	waited = ahead + 1 // somebody waits
	report = ahead + 2 // an idle key has something to give back or to report
	ending = ahead + 3 // its lease ends soon; any other reason comes first
)

// leaves is how many asks of a budget are left for others who wait.
func (r reason) leaves() int64 {
	if r == waited {
		return 0
	}
	return kept
}

// agenda is what is to be sent to the store behind the callers. It is safe for concurrent
// use; add is called under the lock of the key's shard.
type agenda struct {
	wake  chan struct{} // something is due
	alarm chan struct{} // something will be due before the rest of later

	mu    sync.Mutex
	keys  []dueKey // due
	later laterKeys
	asks  []engine.Ask // that give back units or slots of keys without an entry
}

// dueKey is a key on the agenda. It counts only while its entry has the same time for it:
// a later time may have been changed for an earlier one, or the entry may be another
// key's by now.
type dueKey struct {
	key
	at   lease.Millis // on the cache's clock
	when time.Time    // the same, for waiting
}

// laterKeys is a heap of keys by when they are due.
type laterKeys []dueKey

func (l laterKeys) Len() int           { return len(l) }
func (l laterKeys) Less(i, j int) bool { return l[i].when.Before(l[j].when) }
func (l laterKeys) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *laterKeys) Push(k any)        { *l = append(*l, k.(dueKey)) }
func (l *laterKeys) Pop() any {
	last := len(*l) - 1
	k := (*l)[last]
	(*l)[last] = dueKey{}
	*l = (*l)[:last]
	return k
}

// schedule puts the key on the agenda, for when its budget allows an ask and no pause of
// the store holds it up. A key is there once; callers that wait come first.
func (k key) schedule(now lease.Millis, why reason) {
	v := &k.Value
	t := &k.Policy.Terms
	later := v.due == ending || v.due == report && t.Far // any other reason comes first
	if v.due == waited || v.due != none && !later && why != waited || v.out > 0 && why != waited {
		return
	}
	delay := max(v.budget.wait(now, k.pace(now), why.leaves()), v.pause-now, 0)
	if why == report && t.Far { // the next ask may bring it up
		delay = max(delay, v.relay.Account.FarPause(t))
	}
	if v.due != none && v.dueAt <= now+delay {
		v.due = why
		return
	}
	v.due, v.dueAt = why, now+delay
	k.store.due.add(dueKey{key: k, at: v.dueAt}, delay)
}

func (d *agenda) add(k dueKey, delay lease.Millis) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if delay == 0 {
		d.keys = append(d.keys, k)
		ring(d.wake)
		return
	}
	k.when = time.Now().Add(time.Duration(delay) * time.Millisecond)
	heap.Push(&d.later, k)
	if d.later[0].Entry == k.Entry {
		ring(d.alarm)
	}
}

// addAsk adds an ask for whose answer nobody waits.
func (d *agenda) addAsk(a engine.Ask) {
	a.Key = bytes.Clone(a.Key)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.asks) < mostReturns {
		d.asks = append(d.asks, a)
	}
	ring(d.wake)
}

func ring(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// take takes what is due, as much as is sent at once.
func (d *agenda) take() (keys []dueKey, asks []engine.Ask) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(len(d.keys), mostDue)
	keys, d.keys = slices.Clone(d.keys[:n]), slices.Delete(d.keys, 0, n)
	n = min(len(d.asks), mostDue)
	asks, d.asks = slices.Clone(d.asks[:n]), slices.Delete(d.asks, 0, n)
	if len(d.keys)+len(d.asks) > 0 {
		ring(d.wake)
	}
	return keys, asks
}

// ripen makes due what was to be later and is now, by either clock. It returns how long
// until the next; false: nothing is left.
func (d *agenda) ripen(now lease.Millis) (next time.Duration, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.later) > 0 {
		if next = time.Until(d.later[0].when); next > 0 && d.later[0].at > now {
			return next, true
		}
		d.keys = append(d.keys, heap.Pop(&d.later).(dueKey))
		ring(d.wake)
	}
	return 0, false
}
