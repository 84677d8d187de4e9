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
//	   │ one is out, or there were too many lately: wait for the next reply
//	   └ a lease runs low: Run asks behind
//
// Asks for a key are bounded, whatever is asked of it (budget.go). While the store
// does not answer, a key is asked for ten times a second; in between the front says
// so at once, and decides by on_failure if it is asked to ([Store.Fall]).
//
// Permission of an exact rule is never kept: a request and a question alike wait for
// an ask that begins after they came.
//
// Where there is no room for a key, one goes that was asked for long ago (room.go):
// its leases go back, and its denial is remembered in less space (denials.go), so that
// no number of spent keys switches this off for a hot one. Statements of concurrency
// holders, and asks for a key for which none can go, go to the store as they are.
// [Store.Drain] gives back what is on lease when the process ends.
package front

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
	"github.com/weirlimit/weir/internal/limiter/table"
)

// Config is what a front is made of.
type Config struct {
	Store limiter.Store
	// MaxKeys and MaxBytes bound what is remembered, each at least 1; a key takes
	// about 460 bytes beside itself. Denials of one and a half times as many more, whose
	// places others took, are remembered in 36 bytes for each key that there is room for.
	MaxKeys  int
	MaxBytes int64
	// Now is a monotonic clock above zero; nil means the process's.
	Now func() lease.Millis
	// Timeout bounds calls of the store; 0 means 100 ms.
	Timeout time.Duration
	// Wall is the time of day, by which the windows of a replica's share of a limit
	// end while the store does not answer; nil means the system's.
	Wall func() limit.Micros
}

// Store is a front and the store behind it. Create it with [New]. It is safe for
// concurrent use; [Store.Run] has to run beside it.
type Store struct {
	behind  limiter.Store
	now     func() lease.Millis
	wall    func() limit.Micros
	timeout time.Duration
	table   *table.Table[cached]
	denials []denials // by shard, under its lock
	due     agenda

	id                                           [16]byte // names debts of its own
	leased, denied, asked, failed, evicted, full atomic.Uint64

	out      sync.WaitGroup // calls of the store, and one until Run ends
	open     atomic.Int64   // batches that are not answered
	draining atomic.Bool    // it ends: nothing is asked for ahead
}

// Stats counts asks by who answered them.
type Stats struct {
	Leased uint64 // from a lease
	Denied uint64 // from a denial in memory
	Failed uint64 // unavailable without asking: the store did not answer just before
	Asked  uint64 // sent to the store: on behalf of callers, behind them, or passed on
	// Evicted counts keys that were forgotten to make room, although they had units on
	// lease or a denial to remember. Full counts how often no key could go.
	Evicted uint64
	Full    uint64
	Keys    int
}

// New makes a front of a store.
func New(c Config) *Store {
	if c.Now == nil {
		begin := time.Now()
		c.Now = func() lease.Millis { return lease.Millis(time.Since(begin).Milliseconds()) + 1 }
	}
	if c.Wall == nil {
		c.Wall = func() limit.Micros { return limit.Micros(time.Now().UnixMicro()) }
	}
	if c.Timeout <= 0 {
		c.Timeout = 100 * time.Millisecond
	}
	s := &Store{
		behind:  c.Store,
		now:     c.Now,
		wall:    c.Wall,
		timeout: c.Timeout,
		table:   table.New[cached](max(c.MaxKeys, 1), max(c.MaxBytes, 1)),
		due:     agenda{wake: make(chan struct{}, 1), alarm: make(chan struct{}, 1)},
	}
	binary.NativeEndian.PutUint64(s.id[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(s.id[8:], rand.Uint64())
	shards := s.table.Shards()
	s.denials = make([]denials, len(shards))
	for i := range shards {
		s.denials[i].room = shards[i].Room()
	}
	s.out.Add(1)
	return s
}

// Epoch is that of the store behind.
func (s *Store) Epoch() uint64 { return s.behind.Epoch() }

// Stats counts.
func (s *Store) Stats() Stats {
	keys, _ := s.table.Size()
	return Stats{
		Leased: s.leased.Load(), Denied: s.denied.Load(), Failed: s.failed.Load(), Asked: s.asked.Load(),
		Evicted: s.evicted.Load(), Full: s.full.Load(), Keys: keys,
	}
}

// Acquire answers from memory what it can and asks the store for the rest: for all
// at once, but for groups of leased and exact rules, whose exact ones it asks for when
// the leased ones are decided, or half of the time is over. It returns by the
// deadline of ctx.
func (s *Store) Acquire(ctx context.Context, asks []limiter.Ask, grants []lease.Grant) {
	now := s.now()
	c := call{store: s, now: now, grants: grants, ends: forever}
	if deadline, ok := ctx.Deadline(); ok {
		c.ends = now + lease.Millis(time.Until(deadline).Milliseconds())
	}
	asks = c.debts(asks)
	for i := 0; i < len(asks); {
		n := limiter.GroupLen(asks[i:])
		switch {
		case n > 1:
			c.group(asks[i:i+n], i)
		case asks[i].Policy.Limit.Spec().Algorithm == limit.Concurrency:
			c.slots(&asks[i], i)
		case n == 1 && c.onlyOwes(&asks[i], i):
		default:
			c.one(&asks[i], i)
		}
		i += n
	}
	if c.lines != nil {
		c.send(ctx)
		c.gather(ctx)
	}
	c.finish(ctx)
	if len(c.parties) > 0 {
		c.dissolve(ctx)
	}
	c.stillOwed()
	s.leased.Add(c.leased)
	s.denied.Add(c.denied)
	s.failed.Add(c.failed)
}

// forever is the deadline of a caller that has none.
const forever = lease.Never

// call is one Acquire under way.
type call struct {
	store  *Store
	now    lease.Millis
	ends   lease.Millis // its deadline
	grants []lease.Grant

	leased, denied, failed uint64   // answered from memory
	reply                  *reply   // nil: nobody waits for anything
	lines                  *reply   // the same for what has to be known before more is asked
	batch                  *batch   // nil: nothing is to be asked
	parties                []*party // groups that wait
	owed                   []*owed  // debts that were passed on
}

// one decides on an ask that is alone, or lets it wait.
func (c *call) one(a *limiter.Ask, i int) {
	s := c.store
	hash := s.table.Hash(a.Policy, a.Key)
	shard := s.table.Shard(hash)
	shard.Lock()
	defer shard.Unlock()
	e := s.find(shard, hash, c.now, a)
	if e == nil {
		if c.recalled(shard, hash, a, i) {
			return
		}
		if e = s.add(shard, hash, c.now, a); e == nil {
			c.roomless(a, i)
			return
		}
	}
	if visits(e, a.Policy) {
		c.visit(shard, e, a, i)
		return
	}
	if a.Peeks() {
		c.peek(shard, e, a, i)
		return
	}
	w := &a.Want
	if a.Returned != nil {
		rest := c.returns(shard, e, a)
		w = &rest.Want
	}
	var verdict lease.Verdict
	var back lease.Part
	c.grants[i], verdict, back = e.Value.node.Acquire(&a.Policy.Terms, c.now, *w)
	s.giveBack(c.now, shard, e, partOf(back))
	if verdict == lease.Wait {
		c.wait(shard, e, a, i)
		return
	}
	c.answered(verdict)
	s.top(c.now, shard, e)
}

// top puts a key on the agenda if its lease runs low.
func (s *Store) top(now lease.Millis, shard *table.Shard[cached], e *table.Entry[cached]) {
	if behind := e.Value.node.Top(&e.Policy.Terms, now); behind != lease.NoAsk {
		s.due.add(now, shard, e, reason(behind))
	}
}

// roomless passes on an ask for a key of which nothing can be remembered. Nobody
// has to wait until units have been given back.
func (c *call) roomless(a *limiter.Ask, i int) {
	w := &a.Want
	if w.Want > 0 || w.Unused == 0 {
		c.pass(a, i)
		return
	}
	c.store.due.say(limiter.Ask{Policy: a.Policy, Key: a.Key, Want: lease.Want{Unused: w.Unused, Lease: w.Lease}, Returned: a.Returned})
	c.grants[i] = lease.Grant{Status: lease.OK, Limit: a.Policy.Terms.Capacity}
}

// answered counts an answer from memory.
func (c *call) answered(v lease.Verdict) {
	if v == lease.Refuse {
		c.denied++
	} else {
		c.leased++
	}
}

func (c *call) unavailable(i int) {
	c.grants[i] = lease.Grant{Status: lease.Unavailable}
	c.failed++
}

// pass sends an ask to the store as it is.
func (c *call) pass(a *limiter.Ask, i int) {
	c.asking().pass(a, waiter{reply: c.expect(i), at: i})
}

// onlyAsk is a want without what has been settled already.
func onlyAsk(w lease.Want) lease.Want {
	return lease.Want{Need: w.Need, Waiting: w.Waiting, Want: w.Want, Next: w.Next && w.Want > 0}
}

// asking is the call's batch.
func (c *call) asking() *batch {
	if c.batch == nil {
		c.batch = c.store.newBatch()
	}
	return c.batch
}

// expect notes that grant i comes later.
func (c *call) expect(i int) *reply {
	if c.reply == nil {
		c.reply = newReply(c.grants)
	}
	c.reply.expect(i)
	return c.reply
}

// send asks the store. Of single keys it is asked for as long as it may take, not for
// as long as this caller stays: others may wait for the same answer, and a client
// that hangs up must not make them ask again.
func (c *call) send(ctx context.Context) {
	b := c.batch
	if b == nil {
		return
	}
	c.batch = nil
	if deadline, ok := ctx.Deadline(); ok {
		left := time.Until(deadline)
		b.patience = min(b.patience, max(left-left/10, leastPatience))
	}
	c.store.out.Go(func() { b.run(context.WithoutCancel(ctx)) })
}

// leastPatience is how long the store has at least to decide on a group. An answer
// that takes longer is a failure of the store, whoever waits for it.
const leastPatience = 20 * time.Millisecond

// finish asks the store, waits for what is still missing, and leaves the rest
// unavailable.
func (c *call) finish(ctx context.Context) {
	c.send(ctx)
	if c.reply != nil {
		c.reply.wait(ctx)
		c.reply = nil
	}
}
