package memory_test

import (
	"testing"

	"github.com/weirlimit/weir/internal/engine"
	"github.com/weirlimit/weir/internal/engine/enginetest"
	"github.com/weirlimit/weir/internal/engine/memory"
)

// newStore makes a store as a conformance case wants it.
func newStore(o enginetest.Options) *memory.Store {
	if o.MaxKeys == 0 {
		o.MaxKeys = 100_000
	}
	return memory.New(memory.Config{MaxKeys: o.MaxKeys, MaxBytes: 1 << 30, Now: o.Now})
}

func TestConformance(t *testing.T) {
	enginetest.Run(t, enginetest.Subject{
		New: func(_ testing.TB, o enginetest.Options) engine.Store { return newStore(o) },
	})
}

func TestCell(t *testing.T) {
	enginetest.RunCell(t, func(testing.TB) [2]engine.Cell {
		cell := memory.New(memory.Config{}).NewCell()
		return [2]engine.Cell{cell, cell}
	})
}
