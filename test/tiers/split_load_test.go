package tiers

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"

	"github.com/weirlimit/weir/internal/quotapb"
	"github.com/weirlimit/weir/test/kit/proc"
)

// splitLoad asks for keys on both sides, all the time.
type splitLoad struct {
	t       *testing.T
	stop    func()
	offered atomic.Pointer[[]want]

	mu      sync.Mutex
	granted map[grantee]int
	last    map[grantee]time.Time // when each was decided on last
}

// want is a key of a rule.
type want struct{ rule, key string }

// wanted are keys of a rule.
func wanted(rule string, keys ...[]string) (all []want) {
	for _, key := range slices.Concat(keys...) {
		all = append(all, want{rule, key})
	}
	return all
}

// grantee is a key of a rule on one side.
type grantee struct {
	side *replica
	want
}

func startSplitLoad(s *split, offered []want) *splitLoad {
	ctx, cancel := context.WithCancel(s.t.Context())
	l := &splitLoad{t: s.t, granted: map[grantee]int{}, last: map[grantee]time.Time{}}
	l.offer(offered)
	var all sync.WaitGroup
	const workers = 6
	for _, side := range []*replica{s.a, s.b} {
		for worker := range workers {
			all.Go(func() {
				h := side.newHolder()
				for i := 0; ctx.Err() == nil; i++ {
					offered := *l.offered.Load()
					at := i + worker*len(offered)/workers // apart: together they ask for all of them soon after a cut
					l.ask(ctx, h, offered[at%len(offered)])
				}
			})
		}
	}
	stop := sync.OnceFunc(func() {
		cancel()
		all.Wait()
	})
	s.t.Cleanup(stop)
	l.stop = stop
	return l
}

// offer asks for these from now on.
func (l *splitLoad) offer(wants ...[]want) {
	all := slices.Concat(wants...)
	l.offered.Store(&all)
}

func (l *splitLoad) ask(ctx context.Context, h *holder, w want) {
	status, granted, _, err := h.ask(ctx, w.rule, w.key)
	who := grantee{h.of, w}
	l.mu.Lock()
	l.granted[who] += int(granted)
	if status == quotapb.Status_STATUS_OK || status == quotapb.Status_STATUS_DENIED {
		l.last[who] = time.Now()
	}
	l.mu.Unlock()
	if err != nil && ctx.Err() == nil && connect.CodeOf(err) != connect.CodeDeadlineExceeded { // or a busy machine took the whole budget
		l.t.Errorf("%s: %v", h.of.Name, err)
	}
	time.Sleep(5 * time.Millisecond)
}

// awaitDecided waits until a side has decided on all of a rule's keys after now.
func (l *splitLoad) awaitDecided(side *replica, rule string, keys []string, within time.Duration) {
	l.t.Helper()
	from := time.Now()
	proc.Eventually(l.t, within, side.Name+" decides on "+keys[0]+" and its like", func() bool {
		return !slices.ContainsFunc(keys, func(key string) bool { return !l.lastly(side, rule, key).After(from) })
	})
}

// awaitSilence waits until a side has decided on none of a rule's keys for a second.
// They must not be spent: what was denied stays so, from memory.
func (l *splitLoad) awaitSilence(side *replica, rule string, keys []string, within time.Duration) {
	l.t.Helper()
	proc.Eventually(l.t, within, side.Name+" decides no more on "+keys[0]+" and its like", func() bool {
		return !slices.ContainsFunc(keys, func(key string) bool { return time.Since(l.lastly(side, rule, key)) < time.Second })
	})
}

// lastly is when a side decided on a key last.
func (l *splitLoad) lastly(side *replica, rule, key string) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last[grantee{side, want{rule, key}}]
}

// eachWithin fails if a side alone was granted more than a limit of any key. That
// holds while each side has one master for it: a side that has both after another
// may be granted the rest of the second limit, too.
func (l *splitLoad) eachWithin() {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for who, n := range l.granted {
		if n > splitLimit && who.rule != "roomy" {
			l.t.Errorf("%s %s: %s granted %d of %d", who.rule, who.key, who.side.Name, n, splitLimit)
		}
	}
}

// bounded fails if a key was granted more than most on both sides.
func (l *splitLoad) bounded(rule, key string, most int) {
	l.t.Helper()
	if total := l.both(rule, key); total > most {
		l.t.Errorf("%s %s: %d were granted in all, at most %d", rule, key, total, most)
	}
}

// both is what a key was granted on both sides together.
func (l *splitLoad) both(rule, key string) (total int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for who, n := range l.granted {
		if who.rule == rule && who.key == key {
			total += n
		}
	}
	return total
}

// take asks for single units until so many are granted. undecided asks, which a busy machine did not
// decide in time, may have cost a unit each.
func (h *holder) take(t *testing.T, rule, key string, units int) (undecided int) {
	t.Helper()
	for granted := 0; granted < units; {
		status, n, _, err := h.ask(t.Context(), rule, key)
		switch late := connect.CodeOf(err) == connect.CodeDeadlineExceeded; {
		case n == 1:
			granted++
		case (late || err == nil && status == quotapb.Status_STATUS_UNAVAILABLE) && undecided < 10*units:
			undecided++
		default:
			t.Fatalf("%s: %s: after %d units and %d undecided asks: %v, %v", h.of.Name, key, granted, undecided, status, err)
		}
	}
	return undecided
}
