package repeat_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirlimit/weir/internal/repeat"
)

func TestEvery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
		defer cancel()
		begin, calls := time.Now(), []time.Duration{}
		repeat.Every(ctx, time.Second, func() { calls = append(calls, time.Since(begin)) })
		if len(calls) != 3 || calls[0] != time.Second || calls[2] != 3*time.Second {
			t.Errorf("called after %v, want after 1, 2 and 3 s", calls)
		}
	})
}

func TestUntil(t *testing.T) {
	for name, test := range map[string]struct {
		doneAt int // the call that returns true
		calls  int
		after  time.Duration
	}{
		"done at once":     {1, 1, 0},
		"done later":       {3, 3, 2 * time.Second},
		"the context ends": {9, 4, 3500 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), 3500*time.Millisecond)
				defer cancel()
				begin, calls := time.Now(), 0
				repeat.Until(ctx, time.Second, func() bool { calls++; return calls == test.doneAt })
				if passed := time.Since(begin); calls != test.calls || passed != test.after {
					t.Errorf("%d calls in %v, want %d in %v", calls, passed, test.calls, test.after)
				}
			})
		})
	}
}

// TestOncePerMinute: once at the beginning, and once after each minute, however often it is asked.
func TestOncePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s repeat.OncePerMinute
		n := 0
		for range 250 {
			if s.Now() {
				n++
			}
			time.Sleep(time.Second)
		}
		if n != 5 {
			t.Errorf("%d times in 250 s", n)
		}
	})
}
