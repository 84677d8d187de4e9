package engine

import (
	"context"

	"github.com/weirlimit/weir/internal/limit"
)

// A Cell is one stored value that all who share a store swap by compare-and-set, with the clock of that store. It is
// safe for concurrent use.
type Cell interface {
	// Swap stores next if what is stored equals old; nil old: nothing is stored. With nil next it only reads. found is
	// what was stored before, nil for nothing: next is stored if it equals old. now is the time of the store when it
	// did that; the caller does not change it. Neither old nor next is kept, and neither is ever empty but for nil.
	//
	// It returns by the deadline of ctx. After an error it is unknown whether next was stored; it is never sent
	// twice.
	Swap(ctx context.Context, old, next []byte) (found []byte, now limit.Micros, err error)
}
