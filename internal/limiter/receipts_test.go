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
}

func (l *ledger) Receipt(_ context.Context, renew bool) (now, newest limit.Micros, err error) {
	time.Sleep(10 * time.Millisecond)
	defer time.Sleep(10 * time.Millisecond)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return 0, 0, errors.New("away")
	}
	now = limit.Micros(time.Now().Add(5 * time.Hour).UnixMicro())
	if renew || l.newest == 0 {
		l.newest = now
	}
	return now, l.newest, nil
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
