package memory

import (
	"bytes"
	"context"
	"sync"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/limit"
)

// cell is a value in memory.
type cell struct {
	now   func() limit.Micros
	mu    sync.Mutex
	value []byte
}

// NewCell makes a cell of this process on the clock of the store. Nothing is stored in it.
func (s *Store) NewCell() engine.Cell { return &cell{now: s.now} }

func (c *cell) Swap(ctx context.Context, old, next []byte) (found []byte, now limit.Micros, err error) {
	if err := ctx.Err(); err != nil {
		return nil, 0, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	found = c.value
	if next != nil && bytes.Equal(found, old) {
		c.value = bytes.Clone(next)
	}
	return found, c.now(), nil
}
