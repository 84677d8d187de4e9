package upstream

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/repeat"
	"github.com/weirlimit/weir/internal/reserve"
	"github.com/weirlimit/weir/internal/rule"
)

const (
	// turnEvery is the time between two uses of the record.
	turnEvery = time.Second / turnsPerSecond
	// permitEvery is the least time between two requests for permission.
	permitEvery = 100 * time.Millisecond
	// inUseAfter is for how long wants have to be undecided for the log and the metric to call the reserve in use.
	inUseAfter = limit.Second
)

// KeeperConfig is what a [Keeper] is made of.
type KeeperConfig struct {
	Cell   engine.Cell // has the record, for all replicas of the region
	Region string      // the name of the region
	// ID is that of the records of a replica that is the region, so that it is the same region after a restart; 0: random.
	ID uint64
	// Windows are those of all limits with a share in the rules in force; nil: there are no rules yet.
	Windows func() []reserve.Window
	Timeout time.Duration // of a use of the cell; 0 means 100 ms
	Log     *slog.Logger  // nil: nothing is logged
}

// Keeper keeps the record of a region's reserve, at one of the region's replicas. Create it with [NewKeeper].
// It is safe for concurrent use; [Keeper.Run] has to run beside it.
type Keeper struct {
	config KeeperConfig // complete
	wants  wants
	inUse  atomic.Bool
	view   atomic.Pointer[view] // of the record that this replica knows

	using  chan struct{}      // is held while the record is read and changed
	asking singleflight.Group // for permission

	lost, unusable, rejected, unreadable repeat.OncePerMinute // were logged
	unread                               time.Time            // since when the record cannot be used; of the goroutine of Run

	mu     sync.Mutex
	id     uint64         // of the next record that is made
	memory reserve.Record // the newest one that was read or written; the zero one: none was
	seen   limit.Micros   // when that was, by the clock of the cell
	reply  reserve.Reply  // the newest
	sent   time.Time      // when the call was sent that it answers
	bad    uint64         // the ID of a record that the aggregator rejected
	clock  limit.Micros   // of the cell
	at     time.Time      // when it showed that; the zero one: it has not been read
	asked  time.Time      // when permission was asked for last
	failed error          // in vain
}

// view is what asks need of the record. It is immutable.
type view struct {
	permission reserve.Permission
	seen       limit.Micros // when the record was read last, by the region's store
	clock      limit.Micros // of the region's store
	at         time.Time    // when it showed that
}

// NewKeeper makes the keeper of a replica that has just started.
func NewKeeper(c KeeperConfig) *Keeper {
	c.Timeout, c.Log = cmp.Or(c.Timeout, 100*time.Millisecond), cmp.Or(c.Log, slog.New(slog.DiscardHandler))
	k := &Keeper{config: c, id: c.ID, using: make(chan struct{}, 1)}
	k.view.Store(new(view))
	return k
}

// Run renounces the reserve, again and again, until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	k.turn(ctx)
	repeat.Every(ctx, turnEvery, func() { k.turn(ctx) })
	return nil
}

// turn uses the record once.
func (k *Keeper) turn(ctx context.Context) {
	some, mostly := k.wants.undecidedLately()
	err := k.change(ctx, func(r reserve.Record, now limit.Micros) reserve.Record {
		p, sent, fresh := k.freshReply(r)
		if fresh {
			k.compare(r, p)
			r = r.Replied(p)
		}
		if mostly || some && !fresh { // another replica may be connected
			r = r.Hold(now)
		}
		switch {
		case fresh:
			r = r.Renounced(p.At, sent, now, k.config.Windows())
		case r.Until != 0:
			r = r.Stopped(now)
		}
		return r
	})
	k.report(err)
}

// freshReply is the newest reply, and when its call was sent by the region's store, if that was with this record and it
// still counts.
func (k *Keeper) freshReply(r reserve.Record) (p reserve.Reply, sent limit.Micros, fresh bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reply, k.clock + limit.Micros(k.sent.Sub(k.at).Microseconds()), k.reply.ID == r.ID && r.ID != 0 && counts(k.sent)
}

func counts(sent time.Time) bool { return time.Since(sent) <= duration(reserve.FreshFor) }

func duration(d limit.Micros) time.Duration { return time.Duration(d) * time.Microsecond }

// compare complains about a record that the region's store has lost a part of.
func (k *Keeper) compare(r reserve.Record, p reserve.Reply) {
	if r.Outdated(p) && k.lost.Now() {
		k.config.Log.Error("region's store lost the newest record of the reserve; the region may exceed limits by its share",
			"region", k.config.Region, "lost", duration(p.Until-r.Until))
	}
}

// Statement is what a call states of the record; false: none was read yet.
func (k *Keeper) Statement() (reserve.Statement, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.memory.Statement(), k.memory.ID != 0
}

// Replied takes a reply to a call that was sent at that time.
func (k *Keeper) Replied(sent time.Time, p reserve.Reply) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if counts(sent) && (p.At >= k.reply.At || p.ID != k.reply.ID || !counts(k.sent)) {
		k.reply, k.sent = p, sent
	}
}

// Rejected takes that the aggregator rejected the statement of a record as impossible. The region begins with an
// empty one.
func (k *Keeper) Rejected(id uint64, reason string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if id == 0 || id != k.memory.ID {
		return
	}
	k.bad, k.memory, k.id = id, reserve.Record{}, max(rand.Uint64(), 1)
	k.publish()
	if k.rejected.Now() {
		k.config.Log.Error("aggregator rejected the record of the reserve; replacing it",
			"region", k.config.Region, "error", reason, "remedy", "let nothing else write to the region's store")
	}
}

// Share is the region's share; false: none was issued to it, as far as this replica knows.
func (k *Keeper) Share() (reserve.PerMille, bool) { return k.permission().Part() }

// ShareBy is the region's share: that which was issued or, as long as none is known, that by the rules.
func (k *Keeper) ShareBy(regions rule.Regions) reserve.PerMille {
	if share, known := k.Share(); known {
		return share
	}
	return reserve.PerMille(regions.Share(k.config.Region, int64(reserve.Whole)))
}

// InUse reports whether wants of this region have not been decided by the aggregator for a while.
func (k *Keeper) InUse() bool { return k.inUse.Load() }

// permission is what was given to the region by the newest record that this replica knows.
func (k *Keeper) permission() reserve.Permission { return k.view.Load().permission }

// now is the time of the region's store; 0: it is not known.
func (k *Keeper) now() limit.Micros {
	v := k.view.Load()
	if v.at.IsZero() {
		return 0
	}
	return v.clock + limit.Micros(time.Since(v.at).Microseconds())
}

// readAt is when this replica read the record last, by the region's store: another one may have ended an outage since.
func (k *Keeper) readAt() limit.Micros { return k.view.Load().seen }

// permissionDue reports whether permission is to be asked for.
func (k *Keeper) permissionDue(p reserve.Permission, begin limit.Micros) bool {
	return p.Cut == 0 || p.Cut > k.now() || p.Extends(begin)
}

// permit asks for permission for a window, if that may be had, and for when wants stopped being decided. One caller asks,
// and the others wait for what it gets. It is false if the record cannot be used, or ctx ends.
func (k *Keeper) permit(ctx context.Context, begin limit.Micros) (reserve.Permission, bool) {
	asked := k.asking.DoChan(strconv.FormatInt(int64(begin), 10), func() (any, error) { return nil, k.askPermission(begin) })
	select {
	case r := <-asked:
		return k.permission(), r.Err == nil
	case <-ctx.Done(): // how long this caller waits is nothing to the others
		return reserve.Permission{}, false
	}
}

// askPermission asks the record for permission, unless another caller has within permitEvery. An error is that the record
// cannot be used.
func (k *Keeper) askPermission(begin limit.Micros) error {
	if !k.permissionDue(k.permission(), begin) {
		return nil
	}
	k.mu.Lock()
	soon, err := time.Since(k.asked) < permitEvery, k.failed
	k.mu.Unlock()
	if soon {
		return err
	}
	err = k.change(context.Background(), func(r reserve.Record, now limit.Micros) reserve.Record {
		r, _ = r.Permitted(now)
		return r
	})
	k.mu.Lock()
	k.asked, k.failed = time.Now(), err
	k.mu.Unlock()
	return err
}

// unreadFor is for how long the record cannot be used before the log has it.
const unreadFor = 5 * time.Second

// report logs when the reserve begins to be used, and when that is over, and that the record cannot be used.
func (k *Keeper) report(err error) {
	if err == nil {
		k.unread = time.Time{}
	} else if k.unread.IsZero() {
		k.unread = time.Now()
	} else if time.Since(k.unread) >= unreadFor && k.unreadable.Now() {
		k.config.Log.Error("cannot use the record of the reserve; the aggregator withholds the region's share", "region", k.config.Region, "error", err)
	}
	p := k.permission()
	use := p.Cut != 0 && k.now() >= p.Cut+inUseAfter
	if k.inUse.Swap(use) == use {
		return
	}
	if share, _ := p.Part(); use {
		k.config.Log.Warn("aggregator does not decide; the region uses its reserve", "region", k.config.Region, "per_mille", int64(share),
			"runbook", "docs/runbooks/WeirAggregatorUnavailable.md")
	} else {
		k.config.Log.Info("aggregator decides again; the reserve is renounced", "region", k.config.Region)
	}
}

// WindowsOf are those of all limits of which regions have a share.
func WindowsOf(set *rule.Set) []reserve.Window {
	windows, known := []reserve.Window{}, map[reserve.Window]bool{}
	add := func(s limit.Spec) {
		if w := reserve.WindowOf(s); !known[w] {
			windows, known[w] = append(windows, w), true
		}
	}
	for i := range set.Len() {
		r := set.Rule(i)
		if !set.Regions().Divide(r.Scope, r.OnFailure) {
			continue
		}
		for s := range r.Specs() {
			add(*s)
		}
	}
	return windows
}
