package limiter

import (
	"context"
	"strings"
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/lease"
	"github.com/weirlimit/weir/internal/quotapb/wire"
)

type noStore struct{}

func (noStore) Acquire(context.Context, []engine.Ask, []lease.Grant) {}
func (noStore) Epoch() uint64                                        { return 1 }

// The memory of a huge call is not kept for those that follow.
func TestLargeCallsAreNotKept(t *testing.T) {
	s := NewService(Config{Store: noStore{}})
	for range 20 {
		x := s.calls.Get().(*exchange)
		if cap(x.in) > 64<<10 || cap(x.out) > 64<<10 || cap(x.request.Wants) > 512 {
			t.Fatalf("memory of %d and %d bytes and of %d wants was kept", cap(x.in), cap(x.out), cap(x.request.Wants))
		}
		x.in = []byte(strings.Repeat("x", 1<<20))
		s.release(x)
		x = s.calls.Get().(*exchange)
		x.request.Wants = make([]wire.Want, wire.MaxWants)
		s.release(x)
	}
}
