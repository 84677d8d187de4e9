package leasecache

import (
	"bytes"
	"container/heap"
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/table"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
)

const (
	// mostDue is how many asks are sent at once.
	mostDue = 256
	// mostOut is how many asks may be out behind callers at once: so many that a node of
	// the store that hangs holds up no other before it is not asked any more.
	mostOut = 16 << 10
	// mostReturns bounds the give-backs that wait; more are dropped, which wastes
	// their units and no more.
	mostReturns = 10_000
	// sweepCalls is in how many parts the table is looked through: all of it every 2 s, so
	// that idle leases go back soon.
	sweepCalls = 20
)

// reason is why a key has a timer. The larger ones come first.
type reason uint8

const (
	none   reason = iota // it has none
	report               // an idle key has something to give back or to report
	behind               // its lease runs low, or ends soon
	waited               // somebody waits
)

// timers are when the store is to be asked for keys, though no call brings that about. They
// are safe for concurrent use; add is called under the lock of the key's shard.
type timers struct {
	wake chan struct{} // the first one has changed

	mu   sync.Mutex
	keys byTime
	asks []engine.Ask // due: they give back units or slots of keys without an entry
}

// timer is that of a key. It counts only while its entry has the same time for it: another
// time may have been set since, or the entry may be another key's by now.
type timer struct {
	key
	at lease.Millis
}

// byTime is a heap.
type byTime []timer

func (h byTime) Len() int           { return len(h) }
func (h byTime) Less(i, j int) bool { return h[i].at < h[j].at }
func (h byTime) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byTime) Push(t any)        { *h = append(*h, t.(timer)) }
func (h *byTime) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = timer{}
	*h = (*h)[:last]
	return t
}

// schedule sets the timer of a key, or lets it end earlier: not before the store may be asked for
// the key, which for those who wait is at once unless it does not answer. While an ask is out only
// they need one: the reply brings up the rest.
func (k key) schedule(at lease.Millis, why reason) {
	v := &k.Value
	if why != waited {
		if v.due == waited || v.out > 0 {
			return
		}
		at = max(at, v.askAt)
	}
	at = max(at, v.pause)
	if v.due == none || at < v.dueAt {
		v.dueAt = at
		k.store.due.add(timer{k, at})
	}
	v.due = max(v.due, why)
}

// report sets the timer of a key that has something to give back or to report. Where the store is
// far, the next ask may bring it up before that.
func (k key) report(now lease.Millis) {
	if t := &k.Policy.Terms; t.Aggregator {
		now += k.Value.relay.Pause(t)
	}
	k.schedule(now, report)
}

func (d *timers) add(t timer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	heap.Push(&d.keys, t)
	if d.keys[0].Entry == t.Entry {
		d.ring()
	}
}

// addAsk adds an ask that is due, and for whose answer nobody waits.
func (d *timers) addAsk(a engine.Ask) {
	a.Key = bytes.Clone(a.Key)
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.asks) < mostReturns {
		d.asks = append(d.asks, a)
	}
	d.ring()
}

func (d *timers) ring() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// take takes what is due, as much as is sent at once. next is how long until the next timer
// ends; false: there is none.
func (d *timers) take(now lease.Millis) (keys []timer, asks []engine.Ask, next time.Duration, more bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for len(d.keys) > 0 && d.keys[0].at <= now && len(keys) < mostDue {
		keys = append(keys, heap.Pop(&d.keys).(timer))
	}
	n := min(len(d.asks), mostDue)
	asks, d.asks = slices.Clone(d.asks[:n]), slices.Delete(d.asks, 0, n)
	switch {
	case len(d.asks) > 0:
		return keys, asks, 0, true
	case len(d.keys) > 0:
		return keys, asks, time.Duration(max(d.keys[0].at-now, 0)) * time.Millisecond, true
	}
	return keys, asks, 0, false
}

// Run asks the store behind the callers and forgets idle keys, until ctx ends. It
// returns when all calls of the store have; Acquire must not be called any more then.
func (s *Store) Run(ctx context.Context) error {
	defer func() {
		s.out.Done()
		s.out.Wait()
	}()
	var tasks errgroup.Group
	tasks.Go(func() error { s.sendDue(ctx); return nil })
	tasks.Go(func() error { table.SweepAll(ctx, sweepCalls, s.Sweep); return nil })
	return tasks.Wait()
}

// sendDue sends what is due as soon as it is, and waits for no answer.
func (s *Store) sendDue(ctx context.Context) {
	out := semaphore.NewWeighted(mostOut)
	next := time.NewTimer(0)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.due.wake:
		case <-next.C:
		}
		b, wait, more := s.takeDue()
		if more {
			next.Reset(wait)
		}
		if b == nil {
			continue
		}
		n := int64(len(b.asks))
		if out.Acquire(ctx, n) != nil {
			b.close()
			return
		}
		s.out.Go(func() {
			defer out.Release(n)
			b.run(ctx)
		})
	}
}

// Flush sends what is due, and returns when it is answered.
func (s *Store) Flush(ctx context.Context) {
	if b, _, _ := s.takeDue(); b != nil {
		b.run(ctx)
	}
}

// takeDue makes a batch of what is due; nil: nothing is.
func (s *Store) takeDue() (b *batch, next time.Duration, more bool) {
	b = s.newBatch() // before it is taken, so that a drain waits for it
	keys, asks, next, more := s.due.take(s.config.Now())
	for _, t := range keys {
		b.askFor(s.config.Now(), t)
	}
	for _, a := range asks {
		b.put(a, pending{key: key{store: s}})
	}
	if len(b.asks) == 0 {
		b.close()
		b = nil
	}
	return b, next, more
}

// askFor adds the ask for a key whose timer has ended: for those who wait, or for what was to be
// asked behind the callers.
func (b *batch) askFor(now lease.Millis, t timer) {
	t.shard.Lock()
	defer t.shard.Unlock()
	k, v := t.key, &t.Value
	why := v.due
	if why == none || v.dueAt != t.at {
		return
	}
	v.due = none
	if len(v.waiting) > 0 && k.Policy.Terms.Aggregator { // a lease of the next window may have begun
		k.answerWaiting(now)
		v.due = none // those who still wait are asked for below
	}
	switch queue := v.takeQueue(); {
	case len(queue) > 0:
		for i := range queue {
			if w := &queue[i]; w.next { // which was not enough, after all
				b.store.waited.Add(uint64(w.want.Waiting))
				w.next = false
			}
		}
		b.ask(now, k, queue, holder.NoAsk, 0)
	case v.out > 0: // the reply brings this up again
	case now < v.askAt: // somebody has asked meanwhile
		k.schedule(now, why)
	default:
		b.askBehind(now, k, why)
	}
}

// askBehind adds an ask for a key for which nobody waits. What there is to report goes along.
func (b *batch) askBehind(now lease.Millis, k key, why reason) {
	v, t := &k.Value, &k.Policy.Terms
	asks := holder.NoAsk
	switch {
	case v.passing.lasts(now), b.store.draining.Load():
	case why == report: // of a key that is idle, but far from the store
		asks = v.relay.AskAlong(t, now)
	default:
		asks = v.relay.Prefetch(t, now)
	}
	switch reports := k.reports(now); {
	case asks != holder.NoAsk:
		b.ask(now, k, nil, asks, 0)
	case reports && why == report:
		w, _ := v.relay.Holder.Report(t, now)
		b.add(now, k, nil, w, 0)
	case reports:
		k.report(now)
	case why == behind:
		k.topUp(now)
	}
}
