package live_test

import (
	"testing"

	"github.com/weirlimit/weir/internal/live"
	"github.com/weirlimit/weir/internal/live/livetest"
)

func TestMemory(t *testing.T) {
	livetest.Run(t, func(testing.TB) [2]live.Notes {
		b := new(live.Memory)
		return [2]live.Notes{b, b}
	})
}
