// Package front puts a cache of leases in front of a store: a tier of its own in
// the tree of leases, between holders and a store that is a network away.
//
// For every key that is asked for it keeps a [lease.Node]: it is one holder of the
// store, and the granter of all its own callers. What it has on lease it cuts into
// leases for them, what was denied it denies from memory, so that a flood on one
// key costs the store a handful of asks per second, and a hot key that is far from
// its limit is served from here. Leases never outlive the one that they were cut
// from, so the limits hold as they do without it.
//
//	Acquire ── lease or denial in memory ──▶ answer
//	   │ neither, and no ask for the key is out: ask the store
//	   │ one is out: wait for its reply
//	   └ a lease runs low: Run asks behind
//
// Limits on concurrency and keys for which there is no room go to the store as
// they are.
package front

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/regional/limiter"
	"github.com/weirlimit/weir/regional/limiter/table"
)

// Config is what a front is made of.
type Config struct {
	Store limiter.Store
	// MaxKeys and MaxBytes bound what is remembered, each at least 1; a key takes
	// about 400 bytes beside itself.
	MaxKeys  int
	MaxBytes int64
	// Now is a monotonic clock above zero; nil means the process's.
	Now func() lease.Millis
	// Timeout bounds calls of the store that are made behind; 0 means 100 ms.
	Timeout time.Duration
}

// Store is a front and the store behind it. Create it with [New]. It is safe for
// concurrent use; [Store.Run] has to run beside it.
type Store struct {
	behind  limiter.Store
	now     func() lease.Millis
	timeout time.Duration
	table   *table.Table[cached]
	due     agenda

	leased, denied, asked atomic.Uint64
}

// cached is what is kept of a key, under its shard's lock.
type cached struct {
	node    lease.Node
	waiting []waiter // for the reply to an ask that is out, or for a place in the next
	out     int      // asks that are out
	due     reason   // why it is on the agenda; none: it is not
}

// busy reports whether somebody holds on to the entry.
func (c *cached) busy() bool { return len(c.waiting) > 0 || c.out > 0 || c.due != none }

// Stats counts asks by who answered them.
type Stats struct {
	Leased uint64 // from a lease
	Denied uint64 // from a denial in memory
	Asked  uint64 // sent to the store: on behalf of callers, behind them, or passed on
	Keys   int
}

// New makes a front of a store.
func New(c Config) *Store {
	if c.Now == nil {
		begin := time.Now()
		c.Now = func() lease.Millis { return lease.Millis(time.Since(begin).Milliseconds()) + 1 }
	}
	if c.Timeout <= 0 {
		c.Timeout = 100 * time.Millisecond
	}
	return &Store{
		behind:  c.Store,
		now:     c.Now,
		timeout: c.Timeout,
		table:   table.New[cached](max(c.MaxKeys, 1), max(c.MaxBytes, 1)),
		due:     agenda{wake: make(chan struct{}, 1)},
	}
}

// Epoch is that of the store behind.
func (s *Store) Epoch() uint64 { return s.behind.Epoch() }

// Learn tells the store behind.
func (s *Store) Learn() { s.behind.Learn() }

// Stats counts.
func (s *Store) Stats() Stats {
	keys, _ := s.table.Size()
	return Stats{Leased: s.leased.Load(), Denied: s.denied.Load(), Asked: s.asked.Load(), Keys: keys}
}

// Acquire answers from memory what it can and asks the store for the rest, in one
// call. It returns by the deadline of ctx.
func (s *Store) Acquire(ctx context.Context, asks []limiter.Ask, grants []lease.Grant) {
	now := s.now()
	c := call{store: s, now: now, grants: grants}
	for i := 0; i < len(asks); {
		n := limiter.GroupLen(asks[i:])
		switch {
		case n > 1:
			c.group(asks[i:i+n], i)
		case asks[i].Policy.Limit.Spec().Algorithm == limit.Concurrency:
			c.pass(&asks[i], i)
		default:
			c.one(&asks[i], i)
		}
		i += n
	}
	s.leased.Add(c.leased)
	s.denied.Add(c.denied)
	c.finish(ctx)
}

// call is one Acquire under way.
type call struct {
	store  *Store
	now    lease.Millis
	grants []lease.Grant

	leased, denied uint64 // answered from memory
	reply          *reply // nil: nobody waits for anything
	batch          *batch // nil: nothing is to be asked
}

// one decides on an ask that is alone, or lets it wait.
func (c *call) one(a *limiter.Ask, i int) {
	s := c.store
	hash := s.table.Hash(a.Policy, a.Key)
	shard := s.table.Shard(hash)
	shard.Lock()
	defer shard.Unlock()
	e := s.entry(shard, hash, c.now, a)
	if e == nil {
		c.pass(a, i)
		return
	}
	t := &a.Policy.Terms
	var verdict lease.Verdict
	var back lease.Part
	c.grants[i], verdict, back = e.Value.node.Acquire(t, c.now, a.Want)
	if back.Units > 0 {
		s.due.giveBack(e, back)
	}
	if verdict == lease.Wait {
		c.wait(shard, e, a, i)
		return
	}
	c.answered(verdict)
	if behind := e.Value.node.Top(t, c.now); behind != lease.NoAsk {
		s.due.add(shard, e, reason(behind))
	}
}

// answered counts an answer from memory.
func (c *call) answered(v lease.Verdict) {
	if v == lease.Refuse {
		c.denied++
	} else {
		c.leased++
	}
}

// wait puts an ask, whose give-backs are settled, in line for its key. If no ask
// of the key is out, this call sends one.
func (c *call) wait(shard *table.Shard[cached], e *table.Entry[cached], a *limiter.Ask, i int) {
	w := waiter{want: onlyAsk(a.Want), reply: c.expect(i), at: i}
	if e.Value.out > 0 || len(e.Value.waiting) > 0 {
		e.Value.waiting = append(e.Value.waiting, w)
		return
	}
	c.asking().ask(c.now, shard, e, []waiter{w}, lease.NoAsk, 0)
}

// pass sends an ask to the store as it is.
func (c *call) pass(a *limiter.Ask, i int) {
	c.asking().pass(a, waiter{reply: c.expect(i), at: i})
}

// entry finds or makes the node of a counter; nil if there is no room.
func (s *Store) entry(shard *table.Shard[cached], hash uint64, now lease.Millis, a *limiter.Ask) *table.Entry[cached] {
	e := shard.Find(hash, a.Policy, a.Key)
	if e == nil {
		if e = shard.Add(hash, a.Policy, a.Key); e == nil && s.scan(shard, now, roomStep) > 0 {
			e = shard.Add(hash, a.Policy, a.Key)
		}
	}
	if e != nil {
		e.Policy = a.Policy
	}
	return e
}

// onlyAsk is a want without what has been settled already.
func onlyAsk(w lease.Want) lease.Want {
	return lease.Want{Need: w.Need, Waiting: w.Waiting, Want: w.Want, Next: w.Next}
}

// asking is the call's batch.
func (c *call) asking() *batch {
	if c.batch == nil {
		c.batch = &batch{store: c.store}
	}
	return c.batch
}

// expect notes that grant i comes later.
func (c *call) expect(i int) *reply {
	if c.reply == nil {
		c.reply = &reply{grants: c.grants, done: make(chan struct{}), missing: 1}
	}
	c.reply.expect(i)
	return c.reply
}

// finish asks the store, waits for what is still missing, and leaves the rest
// unavailable.
func (c *call) finish(ctx context.Context) {
	if c.batch != nil {
		ctx, cancel := context.WithTimeout(ctx, c.store.timeout)
		c.batch.run(ctx)
		cancel()
	}
	if c.reply != nil {
		c.reply.wait(ctx)
	}
}

// reply collects the grants that a caller waits for.
type reply struct {
	done chan struct{} // closed when none is missing

	mu      sync.Mutex
	grants  []lease.Grant // the caller's; nil when it has gone
	missing int           // and one more until the caller has put all its asks
}

func (r *reply) expect(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grants[i] = lease.Grant{Status: lease.Unavailable}
	r.missing++
}

// answer hands over a grant. It is false if the caller has gone.
func (r *reply) answer(i int, g lease.Grant) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.grants == nil {
		return false
	}
	r.grants[i] = g
	r.arrived()
	return true
}

func (r *reply) arrived() {
	if r.missing--; r.missing == 0 {
		close(r.done)
	}
}

func (r *reply) gone() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.grants == nil
}

func (r *reply) wait(ctx context.Context) {
	r.mu.Lock()
	r.arrived()
	r.mu.Unlock()
	select {
	case <-r.done:
	case <-ctx.Done():
	}
	r.mu.Lock()
	r.grants = nil
	r.mu.Unlock()
}

// waiter is an ask that waits for its grant.
type waiter struct {
	want  lease.Want
	reply *reply
	at    int // index of the grant
}
