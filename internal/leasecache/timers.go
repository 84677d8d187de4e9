package leasecache

import (
	"context"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/table"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/lease/holder"
	"github.com/weirlimit/weir/internal/repeat"
)

const (
	// maxBehind is how many asks may be out behind callers at once: so many that a node of the store that hangs
	// holds up no other before it is not asked any more. Keys beyond that are asked for after askLater. Give-backs
	// beyond that are dropped, which wastes their units and no more.
	maxBehind = 16 << 10
	askLater  = 10 * time.Millisecond
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
		k.setTimer(at)
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

// setTimer has the key asked for at a time.
func (k key) setTimer(at lease.Millis) {
	k.Value.dueAt = at
	time.AfterFunc(time.Duration(max(0, at-k.store.config.Now()))*time.Millisecond, func() { k.askDue(at) })
}

// askDue asks for a key whose timer has ended.
func (k key) askDue(at lease.Millis) {
	s := k.store
	b := s.newBatch() // before the key is looked at, so that a drain waits for it
	switch now := s.config.Now(); {
	case s.ended.Load():
	case now < at, s.behind.Load() >= maxBehind:
		time.AfterFunc(askLater, func() { k.askDue(at) })
	default:
		b.askFor(now, k, at)
	}
	b.runBehind()
}

// askSoon sends an ask for whose answer nobody waits: it gives back units or slots.
func (s *Store) askSoon(a engine.Ask) {
	if s.ended.Load() || s.behind.Load() >= maxBehind {
		return
	}
	b := s.newBatch()
	b.pass(&a)
	go b.runBehind()
}

// runBehind asks the store behind the callers.
func (b *batch) runBehind() {
	b.store.behind.Add(1)
	defer b.store.behind.Add(-1)
	b.run(context.Background())
}

// Run forgets idle keys until ctx ends. It returns when all calls of the store have; Acquire must not be called any
// more then.
func (s *Store) Run(ctx context.Context) error {
	table.SweepAll(ctx, sweepCalls, s.Sweep)
	s.ended.Store(true)
	s.quiesce(context.Background())
	return nil
}

// pollEvery is how often to look whether calls of the store have ended.
const pollEvery = time.Millisecond

// quiesce returns when no call of the store is out, or ctx ends.
func (s *Store) quiesce(ctx context.Context) {
	repeat.Until(ctx, pollEvery, func() bool { return s.open.Load() == 0 })
}

// Flush sends what is due, and returns when it is answered.
func (s *Store) Flush(ctx context.Context) {
	now := s.config.Now()
	var due []func()
	s.walk(func(k key) {
		if at := k.Value.dueAt; k.Value.due != none && at <= now {
			due = append(due, func() { k.askDue(at) })
		}
	}, func() bool { return true })
	for _, ask := range due {
		ask()
	}
	s.quiesce(ctx)
}

// askFor adds the ask for a key whose timer has ended: for those who wait, or for what was to be
// asked behind the callers.
//
// The timer counts only while its entry has the same time for it: another time may have been set since, or the entry
// may be another key's by now.
func (b *batch) askFor(now lease.Millis, k key, at lease.Millis) {
	k.shard.Lock()
	defer k.shard.Unlock()
	v := &k.Value
	why := v.due
	if why == none || v.dueAt != at {
		return
	}
	v.due = none
	switch queue := v.takeQueue(); {
	case len(queue) > 0:
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
	if why != report && !v.passing.lasts(now) && !b.store.draining.Load() {
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
