package enginetest

import (
	"bytes"
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/limit"
)

// RunCell runs every case on cells that two callers have of one value, of which nothing is stored.
func RunCell(t *testing.T, empty func(testing.TB) [2]engine.Cell) {
	t.Run("Swap", func(t *testing.T) { swap(t, empty(t)) })
	t.Run("Hammer", func(t *testing.T) { swapHammer(t, empty(t)) })
}

// swap is that a value is stored only where it follows what is stored, with the time of the store.
func swap(t *testing.T, cells [2]engine.Cell) {
	var latest limit.Micros
	buf := make([]byte, 0, 64)
	for i, c := range []struct{ old, next, found string }{
		{"", "", ""},
		{"other", "a", ""},
		{"", "a\x00\xff", ""},
		{"", "b", "a\x00\xff"},
		{"a", "b", "a\x00\xff"},
		{"a\x00\xff", "", "a\x00\xff"},
		{"a\x00\xff", "b", "a\x00\xff"},
		{"", "", "b"},
		{"b", "b", "b"},
		{"b", "", "b"},
	} {
		buf = append(buf[:0], c.next...) // a cell that keeps it has another value next time
		next := buf
		if c.next == "" {
			next = nil
		}
		old := []byte(c.old)
		if c.old == "" {
			old = nil
		}
		found, now, err := cells[i%2].Swap(t.Context(), old, next)
		if err != nil || string(found) != c.found || (found == nil) != (c.found == "") {
			t.Fatalf("%d: %q stored instead of %q: found %q, %v; want %q", i, c.next, c.old, found, err, c.found)
		}
		if now < latest {
			t.Fatalf("the clock stepped back from %d to %d", latest, now)
		}
		latest = now
	}
	if clock := limit.Micros(time.Now().UnixMicro()); latest < clock-limit.Minute || latest > clock+limit.Second {
		t.Errorf("the clock shows %d, want about %d", latest, clock)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if found, _, err := cells[0].Swap(ended, []byte("b"), []byte("c")); err == nil {
		t.Errorf("found %q after the caller's time was over", found)
	}
}

// swapHammer is that of two values that follow the same one, one is stored.
func swapHammer(t *testing.T, cells [2]engine.Cell) {
	const callers, each = 4, 25
	var adding sync.WaitGroup
	for i := range callers {
		cell := cells[i%2]
		adding.Go(func() {
			var stored []byte
			for added := 0; added < each; {
				n, _ := strconv.Atoi(string(stored))
				found, _, err := cell.Swap(t.Context(), stored, strconv.AppendInt(nil, int64(n+1), 10))
				if err != nil {
					t.Error(err)
					return
				}
				if bytes.Equal(found, stored) {
					added++
				}
				stored = found
			}
		})
	}
	adding.Wait()
	if found, _, err := cells[0].Swap(t.Context(), nil, nil); err != nil || string(found) != strconv.Itoa(callers*each) {
		t.Errorf("%s after %d additions: %v", found, callers*each, err)
	}
}
