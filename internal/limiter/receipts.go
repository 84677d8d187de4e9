package limiter

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirlimit/weir/internal/lease/silence"
	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/repeat"
)

// A Record keeps for all replicas of a region when the newest reply of the aggregator was
// received. It is safe for concurrent use.
type Record interface {
	// Receipt reads the record. With renew, or if nothing is recorded, the newest reply was
	// received now.
	Receipt(ctx context.Context, renew bool) (Receipt, error)
}

// Receipt is what a [Record] has.
type Receipt struct {
	Now, Newest limit.Micros // the time of the region's store, and when the newest reply was received
	Identity    uint64       // of the store, see [Receipts.Identity]; 0: it could not be read
}

// Receipts records when a region received replies of the aggregator. From that follows when it was
// silent (see [silence.Silence]). Use [NewReceipts]. It is safe for concurrent use; [Receipts.Run] has
// to run beside it.
type Receipts struct {
	record Record // nil: this process is the region
	steady func() limit.Micros
	wall   func() limit.Micros // the clock of the region's store, if it is in memory
	log    *slog.Logger

	received atomic.Uint64 // the largest number of an answered call
	recorded atomic.Uint64 // of those whose receipt all replicas can see

	mu      sync.Mutex
	silence silence.Silence
	// With a record: until sure no other reply was received; then the store's clock showed
	// shows, and the newest receipt on it was newest.
	sure, shows, newest limit.Micros
	identity            uint64 // of the region's store; 0: unknown
	silent              bool   // as was logged last
}

// recordEvery is the time between two uses of the record.
const recordEvery = 250 * time.Millisecond

// NewReceipts makes the receipts of a region that has just started. record is nil for a
// region of one process with its counters in memory.
func NewReceipts(record Record, log *slog.Logger) *Receipts {
	began := time.Now()
	r := &Receipts{
		record: record, log: log,
		steady: func() limit.Micros { return limit.Micros(time.Since(began).Microseconds()) + limit.Second },
		wall:   func() limit.Micros { return limit.Micros(time.Now().UnixMicro()) },
	}
	r.silence = silence.New(r.steady(), false)
	if record == nil {
		r.identity = max(rand.Uint64(), 1)
	}
	return r
}

// Received notes the reply to a call with a number of this process.
func (r *Receipts) Received(seq uint64) {
	raise(&r.received, seq)
	if r.record != nil {
		return
	}
	r.mu.Lock()
	now := r.steady()
	r.silence.NoteSign(now, now)
	r.mu.Unlock()
	raise(&r.recorded, seq)
}

// Recorded is the largest number of a call whose reply may be acknowledged: every replica
// can see that it was received.
func (r *Receipts) Recorded() uint64 { return r.recorded.Load() }

func raise(to *atomic.Uint64, n uint64) {
	for {
		if was := to.Load(); n <= was || to.CompareAndSwap(was, n) {
			return
		}
	}
}

// Run uses the record and logs when the region becomes silent, until ctx ends.
func (r *Receipts) Run(ctx context.Context) error {
	look := func() {
		if r.record != nil {
			r.sync(ctx)
		}
		r.report()
	}
	look()
	repeat.Every(ctx, recordEvery, look)
	return nil
}

// sync records what was received since the last time, or reads what other replicas recorded.
func (r *Receipts) sync(ctx context.Context) {
	received := r.received.Load()
	renew := received > r.recorded.Load()
	ctx, cancel := context.WithTimeout(ctx, recordEvery)
	defer cancel()
	sent := r.steady()
	read, err := r.record.Receipt(ctx, renew)
	if err != nil {
		return // nothing is acknowledged, and no silence is sure
	}
	r.learn(sent, r.steady(), read)
	if renew {
		raise(&r.recorded, received)
	}
}

// learn takes what was read of the record between two moments. A receipt counts as late as it
// can have been, and the reading as early. One that was read for the first time came after the
// reading before: if the record's times show otherwise, the store's clock was set in between.
func (r *Receipts) learn(sent, arrived limit.Micros, read Receipt) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := arrived - (read.Now - read.Newest)
	if at > arrived || r.newest > 0 && read.Newest > r.newest && at < r.sure {
		at = arrived
	}
	switch {
	case r.newest == 0: // what the region did before this process began
		r.silence = silence.New(at, false)
	case read.Newest < r.newest: // the store lost receipts, and it is unknown which
		r.silence.NoteSign(arrived, r.sure)
	case read.Newest > r.newest:
		r.silence.NoteSign(at, r.sure)
	}
	r.sure, r.shows, r.newest, r.identity = sent, read.Now, read.Newest, read.Identity
}

// Identity is that of the store that counts the region's static shares: random, the same at all
// replicas that share it. 0: it is not known, or was not read lately. A store that lost its data
// has another one, and a replica that cannot read it must not go on with the one before.
func (r *Receipts) Identity() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if steady, _, sure := r.now(); steady-sure >= surelyFor {
		return 0
	}
	return r.identity
}

// now is the same moment on the steady clock and the store's, and until when the region is
// sure of its silence. The receipts are locked.
func (r *Receipts) now() (steady, store, sure limit.Micros) {
	steady = r.steady()
	if r.record == nil {
		return steady, r.wall(), steady
	}
	return steady, r.shows + steady - r.sure, r.sure
}

// storeTime is the time of the region's store.
func (r *Receipts) storeTime() limit.Micros {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, store, _ := r.now()
	return store
}

// report logs when the region becomes silent, and when that is over.
func (r *Receipts) report() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _, sure := r.now()
	silent := r.silence.Covers(sure)
	switch {
	case silent && !r.silent:
		r.log.Warn("the aggregator is silent: rules with scope: global and on_failure: local are decided by this region's static share, from the next window on")
	case r.silent && !silent:
		r.log.Info("the aggregator answers again: static shares end with the windows that began before")
	}
	r.silent = silent
}

// Silent reports whether the region is cut off by now.
func (r *Receipts) Silent() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, _, sure := r.now()
	return r.silence.Covers(sure)
}

// surelyFor is how long a reading of the record counts for limits without windows, and for the identity.
const surelyFor = limit.Second

// nearEnd is how long before the end of a window an ask may be counted in the next one.
const nearEnd = 100 * limit.Millisecond

// Takes reports whether the region may grant from its static share of the limit now: of a
// limit with windows by the clock if it was silent when the window began, of others while it
// is silent. If not, it may after wait at the earliest.
func (r *Receipts) Takes(l *limit.Limit) (takes bool, wait limit.Micros) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := l.Spec()
	steady, store, sure := r.now()
	wait = max(0, r.silence.LastSign()+silence.After-steady)
	if s.Algorithm == limit.TokenBucket || s.Algorithm == limit.SlidingLog || s.Align == limit.AlignFirstRequest {
		return r.silence.Covers(sure) && steady-sure < surelyFor, wait
	}
	passed := store % s.Period
	begin, ends := steady-passed, steady-passed+s.Period
	takes = begin <= sure && r.silence.Covers(begin) && (s.Period-passed > nearEnd || r.silence.Covers(ends))
	if wait <= ends-steady {
		return takes, ends - steady
	}
	return takes, (wait+store+s.Period-1)/s.Period*s.Period - store
}
