package limiter_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/limit"
	"github.com/weirlimit/weir/internal/limiter"
)

// ledger is a record in memory with a clock of its own, a way off.
type ledger struct {
	mu     sync.Mutex
	newest limit.Micros
	away   bool
	ahead  time.Duration

	identity uint64
}

func (l *ledger) Receipt(_ context.Context, renew bool) (limiter.Receipt, error) {
	time.Sleep(10 * time.Millisecond)
	defer time.Sleep(10 * time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return limiter.Receipt{}, errors.New("away")
	}
	now := limit.Micros(time.Now().Add(5*time.Hour + l.ahead).UnixMicro())
	if renew || l.newest == 0 {
		l.newest = now
	}
	return limiter.Receipt{Now: now, Newest: l.newest, Identity: l.identity}, nil
}

func (l *ledger) set(change func(*ledger)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

// replicas are two of a region; the first one's link to the aggregator works or does not, the
// second one's never does.
type replicas struct {
	t      *testing.T
	record ledger
	both   [2]*limiter.Receipts
	seq    uint64
}

func inReplicas(t *testing.T, test func(*replicas)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &replicas{t: t}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for i := range r.both {
			r.both[i] = limiter.NewReceipts(&r.record, slog.New(slog.DiscardHandler))
			all.Go(func() { _ = r.both[i].Run(ctx) })
			time.Sleep(100 * time.Millisecond) // so that the second one reads what the first one has written
		}
		test(r)
		cancel()
		all.Wait()
	})
}

func (r *replicas) pass(d time.Duration, connected bool) {
	for ends := time.Now().Add(d); time.Now().Before(ends); time.Sleep(time.Second / 2) {
		if connected {
			r.seq++
			r.both[0].Received(r.seq)
		}
	}
}

// takes is which replicas take their share of a window of 10 s by the record's clock.
func (r *replicas) takes() (takes [2]bool) {
	r.t.Helper()
	l, err := limit.New(limit.Spec{Algorithm: limit.FixedWindow, Count: 10, Period: 10 * limit.Second})
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range r.both {
		takes[i], _ = r.both[i].Takes(l)
	}
	return takes
}

// A replica that is cut off takes nothing while another one is connected, and both do when the
// region is cut off.
func TestReplicasAreSilentTogether(t *testing.T) {
	inReplicas(t, func(r *replicas) {
		want := func(want bool, what string) {
			t.Helper()
			if got := r.takes(); got != [2]bool{want, want} {
				t.Errorf("%s: %v", what, got)
			}
		}
		for range 30 {
			r.pass(time.Second, true)
			want(false, "one is connected")
		}
		if n := r.both[0].Recorded(); n == 0 || n > r.seq || n+1 < r.seq {
			t.Errorf("%d is acknowledged of %d", n, r.seq)
		}
		r.pass(6*time.Second, false)
		want(false, "cut off in the window")
		r.pass(6*time.Second, false)
		want(true, "the next window")
		r.pass(2*time.Second, true)
		want(true, "connected again in that window")
		r.pass(10*time.Second, true)
		want(false, "connected when the window began")
	})
}

// The identity of the region's store is one for its replicas, and follows the store. Nobody states one that
// may have gone. Counters in memory are a store of their own.
func TestIdentity(t *testing.T) {
	inReplicas(t, func(r *replicas) {
		want := func(want uint64, what string) {
			t.Helper()
			for i := range r.both {
				if got := r.both[i].Identity(); got != want {
					t.Errorf("%s: replica %d states %d, want %d", what, i, got, want)
				}
			}
		}
		want(0, "before the first reading")
		for _, one := range []struct {
			what     string
			identity uint64
			away     bool
		}{{"read", 7, false}, {"the store was emptied", 8, false}, {"the store is away", 9, true}, {"it is back", 9, false}, {"it has none", 0, false}} {
			r.record.set(func(l *ledger) { l.identity, l.away = one.identity, one.away })
			r.pass(1500*time.Millisecond, true)
			if one.away {
				one.identity = 0
			}
			want(one.identity, one.what)
		}
	})
	a, b := limiter.NewReceipts(nil, slog.New(slog.DiscardHandler)), limiter.NewReceipts(nil, slog.New(slog.DiscardHandler))
	if a.Identity() == 0 || a.Identity() == b.Identity() {
		t.Errorf("in memory: %d and %d", a.Identity(), b.Identity())
	}
}

// Without the record nothing is acknowledged and nothing taken, and a record that was lost
// counts as a receipt.
func TestReplicasWithoutRecord(t *testing.T) {
	inReplicas(t, func(r *replicas) {
		r.pass(5*time.Second, true)
		r.record.set(func(l *ledger) { l.away = true })
		before := r.both[0].Recorded()
		r.pass(20*time.Second, true)
		if n := r.both[0].Recorded(); n != before {
			t.Errorf("%d is acknowledged, %d was before", n, before)
		}
		if got := r.takes(); got != [2]bool{} {
			t.Errorf("%v, but nobody is sure that no reply was received", got)
		}
		r.record.set(func(l *ledger) { l.away = false })
		r.pass(2*time.Second, true)
		r.pass(25*time.Second, false)
		if got := r.takes(); got != [2]bool{true, true} {
			t.Errorf("cut off: %v", got)
		}
		for what, lost := range map[string]func(*ledger){
			"all":  func(l *ledger) { l.newest = 0 },
			"some": func(l *ledger) { l.newest -= limit.Second },
		} {
			r.record.set(lost)
			r.pass(time.Second, false)
			if r.both[0].Silent() || r.both[1].Silent() {
				t.Errorf("%s: silent, though the record of a reply may be lost", what)
			}
			r.pass(10*time.Second, false)
		}
	})
}

// The clock of the region's store is set, at any moment between two uses of the record: nobody is
// silent for it, and when the region is cut off afterwards both replicas notice as if it had
// always been right, also one that has just started.
func TestReplicasWhenTheClockIsSet(t *testing.T) {
	for _, by := range []time.Duration{-time.Hour, time.Hour, -7 * time.Second, 7 * time.Second} {
		for phase := range 25 {
			inReplicas(t, func(r *replicas) {
				r.pass(5*time.Second, true)
				r.seq++
				r.both[0].Received(r.seq)
				time.Sleep(time.Duration(phase) * 20 * time.Millisecond)
				r.record.set(func(l *ledger) { l.ahead = by })
				if phase%5 == 0 { // nobody records anything before a new replica reads
					begun := limiter.NewReceipts(&r.record, slog.New(slog.DiscardHandler))
					ctx, cancel := context.WithCancel(context.Background())
					defer cancel()
					go func() { _ = begun.Run(ctx) }()
					r.both[1] = begun
				}
				for range 10 {
					r.pass(time.Second/2, true)
					if r.both[0].Silent() || r.both[1].Silent() {
						t.Errorf("by %v, phase %d: silent while connected", by, phase)
					}
				}
				r.pass(14*time.Second, false)
				if got := r.takes(); got != [2]bool{true, true} {
					t.Errorf("by %v, phase %d: cut off for more than a window: %v", by, phase, got)
				}
			})
		}
	}
}
